//! The naive reference model: a second implementation of decisions, written from the definition of their meaning. It
//! shares no code and no ideas with the core.
//!
//! An algorithm only answers whether a cost would be admitted at an instant and whether it is fresh by then. Every
//! reported number is found by searching over these two questions, in integers too wide to overflow. A limit with its
//! gap and a policy with its live limits are both a set of meters that admit together, searched by the same code.
//!
//! Supported are costs up to `u64::MAX`, instants up to 2^62 ns, limits up to 2^53 and periods up to 100 years. Details:
//!
//! - A clock that steps back stands still: an instant before the latest one seen is that one.
//! - A wait longer than `u64::MAX` ns is reported as `u64::MAX`; so is one that follows limits which close again (quota,
//!   even-slots) through 10,000 openings without finding them all open.
//! - A zero where a limit needs a positive number is read as 1.
//! - With overdraft, `remaining` and `next_unit` describe what fits without debt.
//! - A shadow limit behaves like a policy of its own: it is charged what it alone grants, and has refused if that alone
//!   would be a refusal. Count-refusals mode always records in it.
//! - A peek reports retry on the unchanged state, in every mode.

mod concurrency;
mod error_rate;
mod even_slots;
mod fixed_window;
mod gcra;
mod leaky_bucket;
mod meter;
mod min_interval;
mod model;
mod quota;
mod rolling_window;
mod search;
mod sliding_window;
mod spec;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod testing;

pub use model::{Model, Reservation};
pub use spec::{Algorithm, Align, Answer, LimitAnswer, LimitSpec, Mode, PolicySpec, Verb};

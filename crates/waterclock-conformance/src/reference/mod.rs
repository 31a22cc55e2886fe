//! The naive reference model: a second opinion on what a decision means.
//!
//! It is written from the page of semantics alone and shares no code and no idea with the engine.
//! An algorithm only says whether a cost would be admitted at an instant and whether it is fresh
//! by then; every reported number is found by searching over those two
//! questions, in integers too wide to overflow. A limit with its gap and a policy with its live
//! limits are the same thing, a set of meters that admit together, and are searched by the same
//! code.
//!
//! In range are costs up to `u64::MAX`, instants up to 2^62 ns, limits up to 2^53 and periods up
//! to 100 years. What the page leaves open is read like this:
//!
//! - A clock that steps back stands still: an instant before the latest one seen is that one.
//! - A wait longer than `u64::MAX` ns is reported as `u64::MAX`; so is one that follows limits
//!   which close again (quota, even-slots) through 10 000 openings without finding them all open.
//! - A zero where a limit needs a positive number is a configuration error and is read as 1.
//! - With overdraft, `remaining` and `next_unit` are about what fits without debt.
//! - A shadow limit behaves as a policy of its own would: it is charged what it alone grants, and
//!   has refused when that alone would be a refusal. Uniform records in it always.
//! - A peek reports retry on the untouched state, in nary and uniform too.

mod answer;
mod concurrency;
mod error_rate;
mod even_slots;
mod fixed_window;
mod gcra;
mod leaky_bucket;
mod limit;
mod meter;
mod min_interval;
mod model;
mod quota;
mod reservation;
mod rolling_window;
mod search;
mod sliding_window;
mod spec;
mod together;

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod testing;

pub use answer::{Answer, LimitAnswer};
pub use model::Model;
pub use reservation::Reservation;
pub use spec::{Algorithm, Align, LimitSpec, Mode, PolicySpec, Verb};

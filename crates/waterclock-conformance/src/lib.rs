//! The judge: test suites that define what a decision means, and that every store must pass.
//!
//! A [`Subject`] is a store, seen as a function from traces to answers. The properties P1–P13 are statements about such
//! functions ([`property`]); [`mod@reference`] is an independent, naive implementation to compare with. To test a new
//! store, implement [`Subject`] and call [`judge`](fn@judge) for each [`Family`] and
//! [`Property`](property::Property).

mod case;
mod family;
pub mod property;
pub mod real;
pub mod reference;
pub mod reservations;
mod subject;
pub mod units;

pub use case::{Case, Event};
pub use family::Family;
pub use property::{judge, verdict};
pub use subject::{Core, Memory, Subject, answer, now_or_never, policy, verb};

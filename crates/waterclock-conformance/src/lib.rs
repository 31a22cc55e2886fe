//! The judge: what a decision means, as suites that every store must pass.
//!
//! A store is seen as a function from traces to answers ([`Subject`]). The properties P1–P13 are
//! statements about such functions ([`property`]), and [`mod@reference`] is an independent, naive
//! implementation to compare with. To hold a new store to all of it, implement [`Subject`] and
//! call [`judge`](fn@judge) for each [`Family`] and [`Property`](property::Property).

mod build;
mod case;
mod family;
pub mod holding;
mod judge;
pub mod property;
pub mod real;
pub mod reference;
mod subject;
pub mod units;

pub use build::policy;
pub use case::{Case, Event};
pub use family::Family;
pub use judge::{judge, verdict};
pub use subject::{Core, Memory, Subject, answer, now_or_never};

//! What callers can tell about a store from their own logs, without looking inside it.

mod admission;
mod conservation;
mod expiry;
mod liveness;
mod log;
mod refusal;
mod thaw;

pub(crate) use admission::{Bound, over_admission};
pub(crate) use conservation::conservation;
pub(crate) use expiry::expiry;
pub(crate) use liveness::{answered_in_time, latencies, recovery};
pub(crate) use log::{Call, Log, Outcome};
pub(crate) use refusal::false_refusal;
pub(crate) use thaw::thaw;

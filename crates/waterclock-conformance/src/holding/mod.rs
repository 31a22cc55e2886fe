//! Reservations before the judge: random traces of holding and settling, a naive ledger beside the reference
//! model, and what a store makes of the same trace.

mod case;
mod ledger;
mod run;

pub use case::{Act, HoldCase, Step};
pub use ledger::{Ledger, Totals};
pub use run::run;

use crate::reference::Answer;

/// What is said to one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A check, a peek or a debit was answered.
    Answered(Answer),
    /// A reservation was asked for.
    Reserved {
        /// How much is held; none if it was refused.
        held: Option<u64>,
        /// How long it can be settled.
        expires_in_ns: u64,
        /// The decision, if it was made now and not before.
        answer: Option<Answer>,
    },
    /// A reservation was settled, now or before.
    Settled {
        /// Whether it was cancelled.
        is_cancelled: bool,
        /// What was held.
        held: u64,
        /// What was used.
        used: u64,
    },
    /// It was not checked: only a reservation can hold it.
    ReserveInstead,
    /// There is no such reservation.
    Unknown,
    /// There is one, and it holds something else.
    Other,
}

//! The judge for reservations: random traces of reserving and settling, a naive ledger on top of the reference model,
//! and the same trace run by a store.

mod case;
mod ledger;

use std::time::Duration;

use waterclock::{Charge, Hold, OnExpiry, Settlement, Store, StoreError, Verb};

pub use case::{Action, ReservationCase, Step};
pub use ledger::{Ledger, Totals};

use crate::reference::Answer;
use crate::subject::answer;

/// The response to one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// A check, a peek or a debit was answered.
    Answered(Answer),
    /// A reservation was requested.
    Reserved {
        /// How much is held; none if it was refused.
        held: Option<u64>,
        /// How long it can be settled.
        expires_in_ns: u64,
        /// The decision; none if the reservation existed already.
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
    /// The check is an error: the policy can only be reserved.
    ReserveInstead,
    /// There is no such reservation.
    Unknown,
    /// The id is in use for another cost, or the cost is 0.
    Conflict,
}

/// Runs the steps on a store, for one key of the policy named `policy`. Calls `set_clock` before each step.
pub async fn run(store: &impl Store, steps: &[Step], set_clock: impl Fn(u64)) -> Vec<Response> {
    let mut responses = Vec::with_capacity(steps.len());
    for step in steps {
        set_clock(step.at_ns);
        responses.push(action(store, step.action).await);
    }
    responses
}

async fn action(store: &impl Store, action: Action) -> Response {
    let id = |name: u8| format!("reservation-{name}");
    match action {
        Action::Check(cost) => apply(store, Verb::Check, cost).await,
        Action::Peek(cost) => apply(store, Verb::Peek, cost).await,
        Action::Debit(cost) => apply(store, Verb::Debit, cost).await,
        Action::Commit { name, used } => {
            settle(store, &id(name), Settlement::Commit(&[used.into()])).await
        }
        Action::Cancel { name } => settle(store, &id(name), Settlement::Cancel).await,
        Action::Reserve { name, cost, ttl_ns, releases } => {
            let on_expiry = if releases { OnExpiry::Release } else { OnExpiry::Keep };
            let (id, ttl) = (id(name), Some(Duration::from_nanos(ttl_ns)));
            let charges = &[charge(cost)];
            match store.reserve(&Hold { id: Some(&id), ttl, charges, on_expiry }).await {
                Ok(reserved) => {
                    let decided = &reserved.answers[0];
                    assert!(reserved.id.as_ref().is_none_or(|given| *given == id));
                    Response::Reserved {
                        held: reserved.id.map(|_| decided.decision.granted()),
                        expires_in_ns: reserved.expires_in.as_nanos().try_into().unwrap_or(0),
                        answer: Some(answer(decided)),
                    }
                }
                Err(StoreError::BadReservation(_)) => Response::Conflict,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn charge(cost: u64) -> Charge<'static> {
    Charge::new("policy", b"alice", cost)
}

async fn apply(store: &impl Store, verb: Verb, cost: u64) -> Response {
    let answers = match store.apply(verb, &[charge(cost)]).await {
        Ok(answers) => answers,
        Err(StoreError::Unfit(_)) if verb == Verb::Check => return Response::ReserveInstead,
        Err(error) => panic!("{error}"),
    };
    Response::Answered(answer(&answers[0]))
}

async fn settle(store: &impl Store, id: &str, with: Settlement<'_>) -> Response {
    match store.settle(id, with).await {
        Ok(done) => Response::Settled {
            is_cancelled: done.is_cancelled,
            held: done.held[0].most(),
            used: done.used[0].most(),
        },
        Err(StoreError::UnknownReservation(_)) => Response::Unknown,
        Err(error) => panic!("{error}"),
    }
}

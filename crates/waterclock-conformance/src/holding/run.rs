use std::time::Duration;

use waterclock::{Charge, Hold, OnExpiry, Settlement, Store, StoreError, Verb};

use super::{Act, Said, Step};
use crate::subject::answer;

/// Does the steps through a store's own seam, on one key of the policy named `policy`. `set_clock` is told
/// each step's instant before it.
pub async fn run(store: &impl Store, steps: &[Step], set_clock: impl Fn(u64)) -> Vec<Said> {
    let mut said = Vec::with_capacity(steps.len());
    for step in steps {
        set_clock(step.at_ns);
        said.push(act(store, step.act).await);
    }
    said
}

async fn act(store: &impl Store, act: Act) -> Said {
    let id = |name: u8| format!("reservation-{name}");
    match act {
        Act::Check(cost) => ask(store, Verb::Check, cost).await,
        Act::Peek(cost) => ask(store, Verb::Peek, cost).await,
        Act::Debit(cost) => ask(store, Verb::Debit, cost).await,
        Act::Commit { name, used } => {
            settle(store, &id(name), Settlement::Commit(&[used.into()])).await
        }
        Act::Cancel { name } => settle(store, &id(name), Settlement::Cancel).await,
        Act::Reserve { name, cost, ttl_ns, releases } => {
            let on_expiry = if releases { OnExpiry::Release } else { OnExpiry::Keep };
            let (id, ttl) = (id(name), Some(Duration::from_nanos(ttl_ns)));
            let charges = &[charge(cost)];
            match store.reserve(&Hold { id: Some(&id), ttl, charges, on_expiry }).await {
                Ok(reserved) => {
                    let decided = &reserved.answers[0];
                    assert!(reserved.id.as_ref().is_none_or(|given| *given == id));
                    Said::Reserved {
                        held: reserved.id.map(|_| decided.decision.granted()),
                        expires_in_ns: reserved.expires_in.as_nanos().try_into().unwrap_or(0),
                        answer: Some(answer(&decided.decision, &decided.limits)),
                    }
                }
                Err(StoreError::BadReservation(_)) => Said::Other,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn charge(cost: u64) -> Charge<'static> {
    Charge { policy: "policy", key: b"alice", cost: cost.into() }
}

async fn ask(store: &impl Store, verb: Verb, cost: u64) -> Said {
    let answers = match store.apply(verb, &[charge(cost)]).await {
        Ok(answers) => answers,
        Err(StoreError::Unfit(_)) if verb == Verb::Check => return Said::ReserveInstead,
        Err(error) => panic!("{error}"),
    };
    Said::Answered(answer(&answers[0].decision, &answers[0].limits))
}

async fn settle(store: &impl Store, id: &str, with: Settlement<'_>) -> Said {
    match store.settle(id, with).await {
        Ok(done) => Said::Settled {
            is_cancelled: done.is_cancelled,
            held: done.held[0].most(),
            used: done.used[0].most(),
        },
        Err(StoreError::UnknownReservation(_)) => Said::Unknown,
        Err(error) => panic!("{error}"),
    }
}

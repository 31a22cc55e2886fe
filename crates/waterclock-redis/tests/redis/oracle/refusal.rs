//! False refusal: one that no order of the concurrent calls explains.

use std::time::Duration;

use waterclock::{Failure, Source};

use super::{Bound, Call, Outcome};

/// The clock of Redis counts whole microseconds, rounded down.
const TICK: u128 = 1_000;

/// Complains about a refusal by the store although there was room, however the calls around it were
/// ordered and whichever of the unanswered ones were charged.
pub(crate) fn false_refusal(calls: &[Call], bound: &Bound) -> Result<(), String> {
    let mut charged: Vec<&Call> = calls.iter().filter(|call| may_have_charged(call)).collect();
    charged.sort_by_key(|call| call.returned);
    let refusals = calls.iter().filter(|call| call.is_from_store() && call.granted() < call.cost);
    for refusal in refusals {
        let latest = latest_full_at(&charged, refusal, bound);
        let (limit, per) = (u128::from(bound.limit), bound.per.as_nanos());
        // In 1/limit ns, so that a unit takes a whole number of them.
        let room = u128::from(bound.capacity.saturating_sub(refusal.cost)) * per;
        let earliest = refusal.invoked.as_nanos().saturating_sub(TICK);
        if refusal.cost <= bound.capacity && latest <= earliest * limit + room {
            return Err(format!("{refusal:?} is refused although it fits, {bound:?}"));
        }
    }
    Ok(())
}

/// The latest instant at which the key may be full, in 1/limit ns, when this call is decided.
///
/// The later charges are made the later that is: so all of them are taken to be made as late as
/// their callers saw, and those without an answer just now.
fn latest_full_at(charged: &[&Call], refusal: &Call, bound: &Bound) -> u128 {
    let (limit, per) = (u128::from(bound.limit), bound.per.as_nanos());
    let before = charged.iter().filter(|call| call.invoked <= refusal.returned);
    let (seen, unseen): (Vec<&&Call>, Vec<&&Call>) = before.partition(|call| is_seen(call));
    let at = |call: &Call| call.returned.min(refusal.returned);
    let add = |full: u128, at: Duration, cost: u64| {
        full.max(at.as_nanos() * limit) + u128::from(cost) * per
    };
    let full = seen.iter().fold(0, |full, call| add(full, at(call), call.granted()));
    unseen.iter().fold(full, |full, call| add(full, refusal.returned, 2 * call.cost))
}

fn is_seen(call: &Call) -> bool {
    call.source() == Some(Source::Authoritative)
}

fn may_have_charged(call: &Call) -> bool {
    use Failure::{BadReply, Timeout, Unreachable};
    match call.outcome {
        Outcome::Answered { source: Source::DeniedCache, .. } => false,
        Outcome::Answered { source: Source::Authoritative, granted } => granted > 0,
        Outcome::Answered { .. } => true,
        Outcome::Failed(kind) => matches!(kind, Timeout | Unreachable | BadReply),
    }
}

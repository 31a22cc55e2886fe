//! `RL.*`: the policies of the configuration, and reservations.

use std::time::Duration;

use waterclock::store::check_reservation_id;
use waterclock::{
    Cost, CostError, Decision, MAX_RESERVATION_ID, MAX_RESERVATION_TTL, MIN_RESERVATION_TTL,
    Outcome, Verb,
};
use waterclock_config::did_you_mean;

use super::commands::{Next, is, shown};
use super::parse::Command;
use super::pending::Pending;
use super::write::Replies;
use crate::engine::{ActivePolicy, Check, Engine, Key, Plan};
use crate::observe::Face;

/// `RL.CHECK policy key [cost]`, and the other verbs of the same form.
#[inline]
pub(super) fn decide<'t>(
    engine: &Engine,
    plan: &'t Plan,
    verb: Verb,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let read = || {
        let cost = command.get(3).map(parse_cost).transpose()?;
        let (policy, key) = policy_and_key(plan, command)?;
        to_check(policy, key, verb, cost.as_ref())
    };
    let check = match read() {
        Ok(check) => check,
        Err(text) => return Next::error(replies, &text),
    };
    if let Some(units) = check.cost.plain()
        && let Some(decision) = engine.decide_now(Face::Resp, verb, check.policy, &check.key, units)
    {
        write_decision(&decision, replies);
        return Next::Decided;
    }
    Next::Wait(Pending::Check { verb, check })
}

/// `RL.REPORT policy key ok|error`.
pub(super) fn report<'t>(
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let read = || {
        let outcome = command.get(3);
        let outcome = match (is(outcome, "ok"), is(outcome, "error")) {
            (true, _) => Outcome::Ok,
            (_, true) => Outcome::Error,
            _ => {
                let found = shown(outcome.unwrap_or_default(), 128);
                return Err(format!("ERR the outcome must be ok or error, not '{found}'"));
            }
        };
        let (policy, key) = policy_and_key(plan, command)?;
        if !policy.scope().policy().takes_reports() {
            let name = policy.name();
            return Err(format!("ERR policy '{name}' has no error-rate limit to report to"));
        }
        let verb = Verb::Report(outcome);
        Ok(Pending::Check { verb, check: to_check(policy, key, verb, None)? })
    };
    read().map_or_else(|text: String| Next::error(replies, &text), Next::Wait)
}

/// `RL.RESERVE policy key cost ttl_ms`.
pub(super) fn reserve<'t>(
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let read = || {
        let cost = parse_cost(command.get(3).unwrap_or_default())?;
        let ttl = parse_ttl(command.get(4).unwrap_or_default())?;
        let (policy, key) = policy_and_key(plan, command)?;
        Ok(Pending::Reserve { check: to_check(policy, key, Verb::Check, Some(&cost))?, ttl })
    };
    read().map_or_else(|text: String| Next::error(replies, &text), Next::Wait)
}

/// `RL.COMMIT id cost`.
pub(super) fn commit<'t>(command: Command<'t, '_>, replies: &mut Replies) -> Next<'t> {
    let read = || {
        let cost = parse_cost(command.get(2).unwrap_or_default())?;
        Ok(Pending::Settle { id: reservation_id(command)?, used: Some(cost) })
    };
    read().map_or_else(|text: String| Next::error(replies, &text), Next::Wait)
}

/// `RL.CANCEL id`.
pub(super) fn cancel<'t>(command: Command<'t, '_>, replies: &mut Replies) -> Next<'t> {
    match reservation_id(command) {
        Ok(id) => Next::Wait(Pending::Settle { id, used: None }),
        Err(text) => Next::error(replies, &text),
    }
}

/// The policy of the first argument and the key of the second.
#[inline]
fn policy_and_key<'t>(
    plan: &'t Plan,
    command: Command<'t, '_>,
) -> Result<(&'t ActivePolicy, Key<'t>), String> {
    let (name, key) = (command.get(1).unwrap_or_default(), command.get(2).unwrap_or_default());
    let Some(policy) = std::str::from_utf8(name).ok().and_then(|name| plan.policy(name)) else {
        return Err(unknown_policy(plan, name));
    };
    let key = policy.key(key).map_err(|error| format!("ERR {error}"))?;
    Ok((policy, key))
}

#[inline]
fn to_check<'t>(
    policy: &'t ActivePolicy,
    key: Key<'t>,
    verb: Verb,
    cost: Option<&Cost>,
) -> Result<Check<'t>, String> {
    Check::new(policy, key, verb, cost).map_err(|error| format!("ERR {error}"))
}

/// A whole number, or `requests=1,tokens=800` for a policy that counts several units.
#[inline]
fn parse_cost(argument: &[u8]) -> Result<Cost, String> {
    let text = std::str::from_utf8(argument).unwrap_or_default();
    text.parse().map_err(|error: CostError| match text.contains('=') {
        true => format!("ERR {error}"),
        false => format!("ERR the cost must be a whole number, not '{}'", shown(argument, 128)),
    })
}

fn parse_ttl(argument: &[u8]) -> Result<Duration, String> {
    let millis = std::str::from_utf8(argument).ok().and_then(|text| text.parse().ok());
    let ttl = millis.map(Duration::from_millis);
    ttl.filter(|ttl| (MIN_RESERVATION_TTL..=MAX_RESERVATION_TTL).contains(ttl)).ok_or_else(|| {
        let most = MAX_RESERVATION_TTL.as_millis();
        format!("ERR the ttl must be from 1 to {most} milliseconds, not '{}'", shown(argument, 128))
    })
}

fn reservation_id<'t>(command: Command<'t, '_>) -> Result<&'t str, String> {
    let id = command.get(1).unwrap_or_default();
    let text = std::str::from_utf8(id).ok();
    text.filter(|id| check_reservation_id(id).is_ok()).ok_or_else(|| {
        format!(
            "ERR the id of a reservation is 1 to {MAX_RESERVATION_ID} printable ASCII characters without \
             spaces, not '{}'",
            shown(id, 128)
        )
    })
}

#[cold]
fn unknown_policy(plan: &Plan, name: &[u8]) -> String {
    let name = shown(name, 64);
    let hint = did_you_mean(&name, plan.policies().map(|policy| policy.name()));
    format!("ERR there is no policy '{name}'{hint}")
}

/// Five numbers: allowed, limit, remaining, milliseconds until a retry can pass, milliseconds until the key is fresh.
/// −1 stands for a limit that counts no units, and for a retry that never passes.
#[inline]
pub(super) fn write_decision(decision: &Decision, replies: &mut Replies) {
    replies.array(5);
    write_numbers(decision, replies);
}

/// The five numbers and the id of the reservation, if it was made.
pub(super) fn write_reservation(decision: &Decision, id: Option<&str>, replies: &mut Replies) {
    replies.array(6);
    write_numbers(decision, replies);
    match id {
        Some(id) => replies.bulk(id.as_bytes()),
        None => replies.null(),
    }
}

#[inline]
fn write_numbers(decision: &Decision, replies: &mut Replies) {
    let units = |units: Option<u64>| units.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
    replies.integer(decision.is_allowed().into());
    replies.integer(units(decision.limit()));
    replies.integer(units(decision.remaining()));
    replies.integer(decision.retry_after().map_or(-1, millis));
    replies.integer(millis(decision.reset_after()));
}

/// Rounded up.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

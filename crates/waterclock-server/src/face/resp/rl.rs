//! `RL.*`: the policies of the configuration.

use std::time::Duration;

use waterclock::{Cost, CostError, Decision, Outcome, Verb};

use super::obey::{Next, shown};
use super::parse::Command;
use super::question::{About, Question};
use super::word::is;
use super::write::Replies;
use crate::engine::{ActivePolicy, Engine, Key, Plan};
use crate::observe::Face;
use waterclock_config::did_you_mean;

/// `RL.CHECK policy key [cost]`, and its likes.
#[inline]
pub(super) fn ask<'t>(
    engine: &Engine,
    plan: &'t Plan,
    verb: Verb,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let cost = match command.get(3).map(cost).transpose() {
        Ok(cost) => cost,
        Err(text) => return Next::refused(replies, &text),
    };
    let (served, key) = match policy_and_key(plan, command) {
        Ok(found) => found,
        Err(text) => return Next::refused(replies, &text),
    };
    let cost = match priced(served, verb, cost) {
        Ok(cost) => cost,
        Err(text) => return Next::refused(replies, &text),
    };
    if let Some(units) = cost.plain()
        && let Some(decision) = engine.decide_now(Face::Resp, verb, served, &key, units)
    {
        answer(&decision, replies);
        return Next::Decided;
    }
    Next::Ask(Question { verb, cost, about: About::Policy { served, key } })
}

/// `RL.REPORT policy key ok|error`.
pub(super) fn report<'t>(
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let outcome = command.get(3);
    let outcome = match (is(outcome, "ok"), is(outcome, "error")) {
        (true, _) => Outcome::Ok,
        (_, true) => Outcome::Error,
        _ => {
            let found = shown(outcome.unwrap_or_default(), 128);
            let text = format!("ERR the outcome must be ok or error, not '{found}'");
            return Next::refused(replies, &text);
        }
    };
    match policy_and_key(plan, command) {
        Ok((served, key)) if served.scope().policy().takes_reports() => {
            let verb = Verb::Report(outcome);
            match priced(served, verb, None) {
                Ok(cost) => {
                    Next::Ask(Question { verb, cost, about: About::Policy { served, key } })
                }
                Err(text) => Next::refused(replies, &text),
            }
        }
        Ok((served, _)) => {
            let name = served.name();
            let text = format!("ERR policy '{name}' has no error-rate limit to report to");
            Next::refused(replies, &text)
        }
        Err(text) => Next::refused(replies, &text),
    }
}

/// The policy that the first argument names, and the key that is the second.
#[inline]
pub(super) fn policy_and_key<'t>(
    plan: &'t Plan,
    command: Command<'t, '_>,
) -> Result<(&'t ActivePolicy, Key<'t>), String> {
    let (name, key) = (command.get(1).unwrap_or_default(), command.get(2).unwrap_or_default());
    let Some(served) = std::str::from_utf8(name).ok().and_then(|name| plan.policy(name)) else {
        return Err(unknown_policy(plan, name));
    };
    let key = served.key(key).map_err(|error| format!("ERR {error}"))?;
    Ok((served, key))
}

/// A whole number, or `requests=1,tokens=800` for a policy that counts several units.
#[inline]
pub(super) fn cost(argument: &[u8]) -> Result<Cost, String> {
    let text = std::str::from_utf8(argument).unwrap_or_default();
    text.parse().map_err(|error: CostError| match text.contains('=') {
        true => format!("ERR {error}"),
        false => format!("ERR the cost must be a whole number, not '{}'", shown(argument, 128)),
    })
}

/// A cost as the policy counts.
#[inline]
pub(super) fn priced(
    served: &ActivePolicy,
    verb: Verb,
    cost: Option<Cost>,
) -> Result<Cost, String> {
    served.price(verb, cost.as_ref()).map_err(|error| format!("ERR {error}"))
}

#[cold]
fn unknown_policy(plan: &Plan, name: &[u8]) -> String {
    let name = shown(name, 64);
    let hint = did_you_mean(&name, plan.policies().map(|served| served.name()));
    format!("ERR there is no policy '{name}'{hint}")
}

/// Five numbers: allowed, limit, remaining, milliseconds until a retry makes sense, milliseconds until
/// the key is fresh. −1 stands for a limit that counts no units, and for a retry that never makes
/// sense.
#[inline]
pub(super) fn answer(decision: &Decision, replies: &mut Replies) {
    replies.array(5);
    numbers(decision, replies);
}

/// The five of them, in an array that has begun.
#[inline]
pub(super) fn numbers(decision: &Decision, replies: &mut Replies) {
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

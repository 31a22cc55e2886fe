//! `RL.*`: the policies of the configuration, and reservations.

use std::time::Duration;

use waterclock::store::check_reservation_id;
use waterclock::{
    Cost, CostError, Decision, MAX_RESERVATION_ID, MAX_RESERVATION_TTL, MIN_RESERVATION_TTL,
    Outcome, Settlement, Verb,
};
use waterclock_config::did_you_mean;

use super::commands::{ErrorReply, Next, is, shown};
use super::parse::Command;
use super::write::Replies;
use crate::engine::{Check, Engine, Plan, Terms, missing_answer};
use crate::observe::Face;

/// `RL.CHECK policy key [cost]`, and the other verbs of the same form.
#[inline]
pub(super) fn decide<'t>(
    engine: &'t Engine,
    plan: &'t Plan,
    verb: Verb,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Result<Next<'t>, ErrorReply> {
    let cost = command.get(3).map(parse_cost).transpose()?;
    let check = to_check(plan, verb, command, cost.as_ref())?;
    if let Some(units) = check.cost.plain()
        && let Some(decision) = engine.decide_now(Face::Resp, verb, check.policy, &check.key, units)
    {
        replies.array(5);
        write_numbers(&decision, replies);
        return Ok(Next::Decided);
    }
    Ok(ask(engine, verb, check, replies))
}

/// `RL.REPORT policy key ok|error`.
pub(super) fn report<'t>(
    engine: &'t Engine,
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    let outcome = command.get(3);
    let outcome = match (is(outcome, "ok"), is(outcome, "error")) {
        (true, _) => Outcome::Ok,
        (_, true) => Outcome::Error,
        _ => {
            let found = shown(outcome.unwrap_or_default(), 128);
            return Err(format!("ERR the outcome must be ok or error, not '{found}'").into());
        }
    };
    let verb = Verb::Report(outcome);
    let check = to_check(plan, verb, command, None)?;
    if !check.policy.scope().policy().takes_reports() {
        let name = check.policy.name();
        return Err(format!("ERR policy '{name}' has no error-rate limit to report to").into());
    }
    Ok(ask(engine, verb, check, replies))
}

/// Asks the store. The reply has five numbers: allowed, limit, remaining, milliseconds until a retry can pass,
/// milliseconds until the key is fresh. −1 stands for a limit that counts no units, and for a retry that never passes.
fn ask<'t>(engine: &'t Engine, verb: Verb, check: Check<'t>, replies: &Replies) -> Next<'t> {
    let mut reply = replies.another();
    Next::wait(verb, async move {
        let replies = engine.apply(Face::Resp, verb, &[check]).await?;
        let decided = replies.first().ok_or_else(missing_answer)?;
        reply.array(5);
        write_numbers(&decided.answer.decision, &mut reply);
        Ok(reply)
    })
}

/// `RL.RESERVE policy key cost ttl_ms`. The reply has five numbers and the reservation's id, if it was made.
pub(super) fn reserve<'t>(
    engine: &'t Engine,
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    let cost = parse_cost(command.get(3).unwrap_or_default())?;
    let ttl = Some(parse_ttl(command.get(4).unwrap_or_default())?);
    let check = to_check(plan, Verb::Check, command, Some(&cost))?;
    let mut reply = replies.another();
    Ok(Next::wait_alone(async move {
        let terms = Terms { ttl, ..Terms::default() };
        let holding = engine.reserve(Face::Resp, terms, &[check]).await?;
        let decided = holding.replies.first().ok_or_else(missing_answer)?;
        reply.array(6);
        write_numbers(&decided.answer.decision, &mut reply);
        match &holding.reservation {
            Some((id, _)) => reply.bulk(id.as_bytes()),
            None => reply.null(),
        }
        Ok(reply)
    }))
}

/// `RL.COMMIT id cost`.
pub(super) fn commit<'t>(
    engine: &'t Engine,
    command: Command<'t, '_>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    let cost = parse_cost(command.get(2).unwrap_or_default())?;
    settle(engine, command, Some(cost), replies)
}

/// `RL.CANCEL id`.
pub(super) fn cancel<'t>(
    engine: &'t Engine,
    command: Command<'t, '_>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    settle(engine, command, None, replies)
}

/// Commits a cost, or cancels.
fn settle<'t>(
    engine: &'t Engine,
    command: Command<'t, '_>,
    cost: Option<Cost>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    let (id, mut reply) = (reservation_id(command)?, replies.another());
    Ok(Next::wait_alone(async move {
        let with = match &cost {
            Some(cost) => Settlement::Commit(std::slice::from_ref(cost)),
            None => Settlement::Cancel,
        };
        engine.settle(id, with).await?;
        reply.simple("OK");
        Ok(reply)
    }))
}

/// A check of the policy in the first argument and the key in the second.
#[inline]
fn to_check<'t>(
    plan: &'t Plan,
    verb: Verb,
    command: Command<'t, '_>,
    cost: Option<&Cost>,
) -> Result<Check<'t>, String> {
    let (name, key) = (command.get(1).unwrap_or_default(), command.get(2).unwrap_or_default());
    let Some(policy) = std::str::from_utf8(name).ok().and_then(|name| plan.policy(name)) else {
        return Err(unknown_policy(plan, name));
    };
    let key = policy.key(key).map_err(|error| format!("ERR {error}"))?;
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

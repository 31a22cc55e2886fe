//! `CL.THROTTLE`, as redis-cell answers it, and `DEL` for its keys.

use std::time::Duration;

use waterclock::{Decision, Verb};

use super::commands::{ErrorReply, Next, shown};
use super::parse::Command;
use super::session::Session;
use super::write::Replies;
use crate::engine::{Engine, MAX_KEY, ThrottleNumbers, ThrottlePolicy};
use crate::observe::Face;

const USAGE: &str = "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> \
                     [<quantity>]";

/// `CL.THROTTLE key max_burst count period [quantity]`.
#[inline]
pub(super) fn throttle<'t>(
    engine: &'t Engine,
    session: &mut Session,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Result<Next<'t>, ErrorReply> {
    let (key, numbers, quantity) = read(command)?;
    let cost = quantity.unsigned_abs();
    let verb = match quantity {
        1.. => Verb::Check,
        0 => Verb::Peek,
        _ => Verb::Refund,
    };
    if session.throttle.as_ref().is_none_or(|policy| policy.numbers != numbers) {
        session.throttle = engine.known_throttle(numbers);
    }
    if let Some(policy) = &session.throttle
        && let Some(decision) = engine.throttle_now(Face::Resp, policy, verb, key, cost)
    {
        write_decision(policy, verb, &decision, replies);
        return Ok(Next::Decided);
    }
    // Its numbers may have given way to others.
    session.throttle = None;
    let mut reply = replies.another();
    Ok(Next::wait(verb, async move {
        let (policy, decision) = engine.throttle(Face::Resp, numbers, verb, key, cost).await?;
        write_decision(&policy, verb, &decision, &mut reply);
        Ok(reply)
    }))
}

/// The error is the whole reply, in redis-cell's words where it has the same error.
fn read<'t>(command: Command<'t, '_>) -> Result<(&'t [u8], ThrottleNumbers, i64), String> {
    let (Some(key), Some(max_burst), Some(count), Some(period), 5 | 6) =
        (command.get(1), command.get(2), command.get(3), command.get(4), command.len())
    else {
        return Err(USAGE.to_owned());
    };
    let (max_burst, count, period) = (integer(max_burst)?, integer(count)?, integer(period)?);
    let quantity = command.get(5).map_or(Ok(1), integer)?;
    check_length(key)?;
    if count == 0 || period == 0 {
        return Err("Cell error: Zero rates are not supported".to_owned());
    }
    let positive = |name: &str, number: i64| {
        u64::try_from(number)
            .map_err(|_| format!("Cell error: {name} must not be negative; found {number}"))
    };
    let numbers = ThrottleNumbers {
        max_burst: positive("max_burst", max_burst)?,
        count: positive("count", count)?,
        period_s: positive("period", period)?,
    };
    Ok((key, numbers, quantity))
}

fn check_length(key: &[u8]) -> Result<(), String> {
    if key.len() > MAX_KEY {
        let found = key.len();
        return Err(format!(
            "Cell error: a key must be at most {MAX_KEY} bytes long; found {found}"
        ));
    }
    Ok(())
}

#[inline]
fn integer(argument: &[u8]) -> Result<i64, String> {
    // The usual case: so few bytes that nothing overflows, whatever they are.
    if let 1..=17 = argument.len() {
        let (number, is_number) = argument.iter().fold((0, true), |(number, is_number), byte| {
            let digit = byte.wrapping_sub(b'0');
            (number * 10 + i64::from(digit), is_number & (digit <= 9))
        });
        if is_number {
            return Ok(number);
        }
    }
    let number = std::str::from_utf8(argument).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("Cell error: Couldn't parse as integer: {}", shown(argument, 128)))
}

/// Five numbers: limited, limit, remaining, seconds until a retry can pass, seconds until full.
#[inline]
fn write_decision(policy: &ThrottlePolicy, verb: Verb, decision: &Decision, replies: &mut Replies) {
    let reset = decision.reset_after();
    let (limited, retry) = match verb {
        Verb::Check => (!decision.is_allowed(), decision.retry_after()),
        // A key that has spent more under other numbers than fits here is limited even at cost 0.
        _ => {
            let over = reset.saturating_sub(policy.full_in);
            (!over.is_zero(), Some(over))
        }
    };
    let retry = retry.filter(|_| limited).map_or(-1, seconds);
    replies.array(5);
    replies.integer(limited.into());
    replies.integer(units(decision.limit()));
    replies.integer(units(decision.remaining()));
    replies.integer(retry);
    replies.integer(seconds(reset));
}

/// Rounded up as redis-cell does: from a whole millisecond over a second on.
fn seconds(time: Duration) -> i64 {
    let seconds = time.as_secs() + u64::from(time.subsec_millis() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn units(units: Option<u64>) -> i64 {
    units.map_or(-1, |units| i64::try_from(units).unwrap_or(i64::MAX))
}

/// `DEL key…` resets keys of `CL.THROTTLE`; the reply is how many had spent anything.
pub(super) fn del<'t>(
    engine: &'t Engine,
    command: Command<'t, '_>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    command.from(1).try_for_each(check_length)?;
    let keys: Vec<&[u8]> = command.from(1).collect();
    let mut reply = replies.another();
    Ok(Next::wait_alone(async move {
        let mut deleted = 0;
        for key in keys {
            deleted += i64::from(engine.reset_throttled(key).await?);
        }
        reply.integer(deleted);
        Ok(reply)
    }))
}

#[cfg(test)]
mod tests {
    use super::integer;

    #[test]
    fn integers_are_those_of_the_standard_library() {
        let lengths = (0..24).flat_map(|length| ["9", "0", "\u{7f}"].map(|one| one.repeat(length)));
        let odd = ["-1", "+7", "--1", "12a", "a12", "9223372036854775807", "9223372036854775808"];
        for text in lengths.chain(odd.map(str::to_owned)) {
            assert_eq!(integer(text.as_bytes()).ok(), text.parse().ok(), "{text}");
        }
        assert!(integer(&[u8::MAX; 17]).is_err());
    }
}

//! `RL.CHECKS`: several checks, all or nothing.

use waterclock::{Cost, Mode, Verb};

use super::commands::{ErrorReply, Next, shown};
use super::parse::{Command, MOST_CHECKS};
use super::rl::{Options, check_of, parse_cost, write};
use super::session::Session;
use super::write::Replies;
use crate::engine::{Check, Engine, Plan, missing_answer};
use crate::observe::Face;

/// Bytes of one check while it is decided, with its six numbers.
const CHECK_BYTES: usize = 1_024;
/// Bytes of a decision in JSON without its key and limits, and with each limit.
const JSON_BYTES: usize = 1_024;
const LIMIT_BYTES: usize = 384;
/// A byte of a key may be six in JSON.
const ESCAPED: usize = 6;

/// `RL.CHECKS n policy key cost … [TIER name] [FACTOR decimal] [JSON]`. The reply has as many elements as there are checks.
pub(super) fn decide<'t>(
    engine: &'t Engine,
    plan: &'t Plan,
    session: &mut Session,
    command: Command<'t, '_>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    let count = parse_count(command.get(1).unwrap_or_default())?;
    let options_from = 2 + 3 * count;
    if command.len() < options_from {
        let found = command.len() - 2;
        let text = format!("ERR {count} checks are {} arguments, found {found}", 3 * count);
        return Err(text.into());
    }
    let options = Options::read(command, options_from)?;
    let mut checks = Vec::with_capacity(count);
    let mut words = command.from(2);
    let mut bytes = 0;
    while checks.len() < count
        && let (Some(policy), Some(key), Some(cost)) = (words.next(), words.next(), words.next())
    {
        let check = parse_cost(cost).map_err(ErrorReply::from);
        let check = check.and_then(|cost| check_of(plan, Verb::Check, policy, key, Some(&cost)));
        let check = check.and_then(|check| Ok(options.apply_to(check)?));
        let check = check.map_err(|error| in_line(checks.len() + 1, error))?;
        bytes += bytes_of(&check, options);
        checks.push(check);
    }
    if !session.many.grow(bytes, true) {
        engine.metrics().count_receive_refused(Face::Resp);
        return Err(
            "BUSY the server is deciding too many checks at once; nothing was charged".into()
        );
    }
    // A check alone may be granted in part; with another one of the same key it may not.
    if let [only] = &*checks
        && only.policy.scope().policy().mode() == Mode::Partial
    {
        let nothing = Check::new(only.policy, only.key.clone(), Verb::Check, Some(&Cost::from(0)));
        let again = nothing.map_err(|error| format!("ERR {error}"))?;
        checks.push(options.apply_to(again)?);
    }
    let mut reply = replies.another();
    // Alone, so that one connection has the memory of one such command.
    Ok(Next::wait_alone(async move {
        let decided = engine.apply(Face::Resp, Verb::Check, &checks).await?;
        if decided.len() < count {
            return Err(missing_answer());
        }
        reply.array(count);
        for (check, decided) in checks.iter().zip(&decided).take(count) {
            write(check, decided, options, &mut reply);
        }
        Ok(reply)
    }))
}

fn parse_count(argument: &[u8]) -> Result<usize, String> {
    let count = std::str::from_utf8(argument).ok().and_then(|text| text.parse().ok());
    count.filter(|count| (1..=MOST_CHECKS).contains(count)).ok_or_else(|| {
        let found = shown(argument, 128);
        format!("ERR the number of checks must be from 1 to {MOST_CHECKS}, not '{found}'")
    })
}

/// What a check takes until its reply is sent.
fn bytes_of(check: &Check<'_>, options: Options<'_>) -> usize {
    if !options.json {
        return CHECK_BYTES;
    }
    let limits = check.policy.scope().policy().limits().len();
    CHECK_BYTES + JSON_BYTES + limits * LIMIT_BYTES + ESCAPED * check.key.bytes().len()
}

/// The same error, with the check it is about.
fn in_line(line: usize, error: ErrorReply) -> ErrorReply {
    let reason = error.text.strip_prefix("ERR ").unwrap_or(&error.text);
    ErrorReply { text: format!("ERR line {line}: {reason}").into(), ..error }
}

//! `RL.RESERVE`, `RL.COMMIT`, `RL.CANCEL`: hold an estimate, settle the truth.

use std::time::Duration;

use waterclock::{Decision, MAX_RESERVATION_ID, MAX_RESERVATION_TTL, MIN_RESERVATION_TTL, Verb};

use super::obey::{Next, shown};
use super::parse::Command;
use super::question::{About, Question};
use super::rl::{cost, numbers, policy_and_key, priced};
use super::write::Replies;
use crate::engine::Plan;

/// `RL.RESERVE policy key cost ttl_ms`.
pub(super) fn reserve<'t>(
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Next<'t> {
    let read = || {
        let cost = cost(command.get(3).unwrap_or_default())?;
        let ttl = ttl(command.get(4).unwrap_or_default())?;
        let (served, key) = policy_and_key(plan, command)?;
        let cost = priced(served, Verb::Check, Some(cost))?;
        Ok(Question { verb: Verb::Check, cost, about: About::Hold { served, key, ttl } })
    };
    read().map_or_else(|text: String| Next::refused(replies, &text), Next::Ask)
}

/// `RL.COMMIT id cost`.
pub(super) fn commit<'t>(command: Command<'t, '_>, replies: &mut Replies) -> Next<'t> {
    let read = || {
        let cost = cost(command.get(2).unwrap_or_default())?;
        let about = About::Settle { id: id(command)?, is_cancelled: false };
        Ok(Question { verb: Verb::Check, cost, about })
    };
    read().map_or_else(|text: String| Next::refused(replies, &text), Next::Ask)
}

/// `RL.CANCEL id`.
pub(super) fn cancel<'t>(command: Command<'t, '_>, replies: &mut Replies) -> Next<'t> {
    match id(command) {
        Ok(id) => {
            let about = About::Settle { id, is_cancelled: true };
            Next::Ask(Question { verb: Verb::Check, cost: 0.into(), about })
        }
        Err(text) => Next::refused(replies, &text),
    }
}

fn ttl(argument: &[u8]) -> Result<Duration, String> {
    let millis = std::str::from_utf8(argument).ok().and_then(|text| text.parse().ok());
    let ttl = millis.map(Duration::from_millis);
    ttl.filter(|ttl| (MIN_RESERVATION_TTL..=MAX_RESERVATION_TTL).contains(ttl)).ok_or_else(|| {
        let most = MAX_RESERVATION_TTL.as_millis();
        format!("ERR the ttl must be from 1 to {most} milliseconds, not '{}'", shown(argument, 128))
    })
}

fn id<'t>(command: Command<'t, '_>) -> Result<&'t str, String> {
    let id = command.get(1).unwrap_or_default();
    let fits = (1..=MAX_RESERVATION_ID).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(id).ok().filter(|_| fits).ok_or_else(|| {
        format!(
            "ERR the id of a reservation is 1 to {MAX_RESERVATION_ID} printable ASCII characters without \
             spaces, not '{}'",
            shown(id, 128)
        )
    })
}

/// The five numbers of a check, and the id, if something is held.
pub(super) fn answer(decision: &Decision, id: Option<&str>, replies: &mut Replies) {
    replies.array(6);
    numbers(decision, replies);
    match id {
        Some(id) => replies.bulk(id.as_bytes()),
        None => replies.null(),
    }
}

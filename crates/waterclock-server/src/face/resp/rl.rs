//! `RL.*`: the policies of the configuration, and reservations.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use waterclock::store::check_reservation_id;
use waterclock::{
    Cost, CostError, Decision, Factor, FactorError, MAX_RESERVATION_ID, MAX_RESERVATION_TTL,
    MIN_RESERVATION_TTL, OnExpiry, Outcome, Settlement, Verb,
};
use waterclock_config::DecisionLine;
use waterclock_http::HeaderFields;

use super::commands::{ErrorReply, Next, is, shown};
use super::parse::Command;
use super::write::Replies;
use crate::engine::{
    ActivePolicy, Check, Engine, Key, PendingCheck, Plan, Reply, Reservation, Terms, missing_answer,
};
use crate::observe::Face;
use crate::waits::{MAX_WITHIN, WaitError};

/// What may follow the arguments of a command, in any order.
#[derive(Clone, Copy, Default)]
pub(super) struct Options<'t> {
    tier: Option<&'t str>,
    factor: Option<Factor>,
    /// The reply is the whole decision, as `/v1/check` gives it.
    pub(super) json: bool,
    /// Of a reservation: the caller's own id, and what happens when it expires.
    id: Option<&'t str>,
    on_expiry: OnExpiry,
}

impl<'t> Options<'t> {
    /// Reads the arguments from this one on, for every command that has options.
    pub(super) fn read(command: Command<'t, '_>, from: usize) -> Result<Options<'t>, String> {
        Options::read_words(command, from, false)
    }

    /// `ID` and `RELEASE` are for commands that reserve.
    fn read_words(
        command: Command<'t, '_>,
        from: usize,
        reserves: bool,
    ) -> Result<Options<'t>, String> {
        let (mut options, mut words) = (Options::default(), command.from(from));
        while let Some(word) = words.next() {
            if is(Some(word), "json") {
                options.json = true;
            } else if is(Some(word), "tier") {
                let name = words.next().ok_or("ERR TIER must be followed by a tier's name")?;
                let name = std::str::from_utf8(name).map_err(|_| "ERR a tier's name is UTF-8")?;
                options.tier = Some(name);
            } else if is(Some(word), "factor") {
                let text = words.next().ok_or("ERR FACTOR must be followed by a decimal")?;
                let factor: Result<Factor, FactorError> =
                    std::str::from_utf8(text).unwrap_or_default().parse();
                options.factor = Some(factor.map_err(|error| format!("ERR {error}"))?);
            } else if reserves && is(Some(word), "id") {
                let id = words.next().ok_or("ERR ID must be followed by the reservation's id")?;
                options.id = Some(reservation_id(id)?);
            } else if reserves && is(Some(word), "release") {
                options.on_expiry = OnExpiry::Release;
            } else {
                let found = shown(word, 64);
                let more = if reserves { ", ID id, RELEASE" } else { "" };
                return Err(format!(
                    "ERR unknown option '{found}'; TIER name, FACTOR decimal{more} and JSON are known"
                ));
            }
        }
        Ok(options)
    }

    /// The check as they want it.
    pub(super) fn apply_to(self, check: Check<'t>) -> Result<Check<'t>, String> {
        let check = check.with_tier(self.tier.map(Cow::Borrowed));
        Ok(check.map_err(|error| format!("ERR {error}"))?.with_factor(self.factor))
    }
}

/// Whether an argument is the name of an option, and not a cost.
fn is_option(argument: &[u8]) -> bool {
    ["tier", "factor", "json"].iter().any(|word| is(Some(argument), word))
}

/// `RL.CHECK policy key [cost] [TIER name] [FACTOR decimal] [JSON]`, and the other verbs of the same form.
#[inline]
pub(super) fn decide<'t>(
    engine: &'t Engine,
    plan: &'t Plan,
    verb: Verb,
    command: Command<'t, '_>,
    replies: &mut Replies,
) -> Result<Next<'t>, ErrorReply> {
    let cost = command.get(3).filter(|word| match verb {
        Verb::Refund => true,
        Verb::Reset => false,
        _ => !is_option(word),
    });
    let cost = cost.map(parse_cost).transpose()?;
    let check = to_check(plan, verb, command, cost.as_ref())?;
    let options_from = 3 + usize::from(cost.is_some());
    if command.len() > options_from {
        let options = Options::read(command, options_from)?;
        return ask(engine, verb, check, options, replies);
    }
    if let Some(units) = check.cost.plain()
        && let Some(decision) = engine.decide_now(Face::Resp, verb, check.policy, &check.key, units)
    {
        replies.array(NUMBERS);
        write_numbers(&check.cost, &decision, replies);
        return Ok(Next::Decided);
    }
    ask(engine, verb, check, Options::default(), replies)
}

/// `RL.REPORT policy key ok|error|cost [TIER name] [FACTOR decimal] [JSON]`.
pub(super) fn report<'t>(
    engine: &'t Engine,
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    let reported = command.get(3).unwrap_or_default();
    let (verb, cost) = match (is(Some(reported), "ok"), is(Some(reported), "error")) {
        (true, _) => (Verb::Report(Outcome::Ok), None),
        (_, true) => (Verb::Report(Outcome::Error), None),
        _ if reported.iter().any(u8::is_ascii_digit) => (Verb::Debit, Some(parse_cost(reported)?)),
        _ => {
            let found = shown(reported, 128);
            return Err(format!("ERR report ok, error or a cost, not '{found}'").into());
        }
    };
    let check = to_check(plan, verb, command, cost.as_ref())?;
    if verb != Verb::Debit && !check.policy.scope().policy().takes_reports() {
        let name = check.policy.name();
        return Err(format!("ERR policy '{name}' has no error-rate limit to report to").into());
    }
    ask(engine, verb, check, Options::read(command, 4)?, replies)
}

/// Asks the store. The reply has six numbers: allowed, limit, remaining, milliseconds until a retry can pass,
/// milliseconds until the key is fresh, and how much was granted. −1 stands for a limit that counts no units, and for a
/// retry that never passes.
fn ask<'t>(
    engine: &'t Engine,
    verb: Verb,
    check: Check<'t>,
    options: Options<'t>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    let check = options.apply_to(check)?;
    let mut reply = replies.another();
    Ok(Next::wait(verb, async move {
        let decided = engine.apply(Face::Resp, verb, std::slice::from_ref(&check)).await?;
        let decided = decided.first().ok_or_else(missing_answer)?;
        write(&check, decided, options, &mut reply);
        Ok(reply)
    }))
}

/// Six numbers, or the decision in JSON.
pub(super) fn write(check: &Check<'_>, decided: &Reply, options: Options<'_>, reply: &mut Replies) {
    if options.json {
        reply.bulk(in_json(check, decided, None).as_bytes());
    } else {
        reply.array(NUMBERS);
        write_numbers(&check.cost, &decided.answer.decision, reply);
    }
}

/// `RL.WAIT`: what the connection waits for.
pub(super) struct InLine {
    pub(super) pending: Arc<PendingCheck>,
    pub(super) within: Duration,
    json: bool,
}

/// `RL.WAIT policy key cost within_ms [TIER name] [FACTOR decimal] [JSON]`.
pub(super) fn wait<'t>(plan: &'t Plan, command: Command<'t, '_>) -> Result<Next<'t>, ErrorReply> {
    let cost = parse_cost(command.get(3).unwrap_or_default())?;
    let within = parse_within(command.get(4).unwrap_or_default())?;
    let options = Options::read(command, 5)?;
    let check = options.apply_to(to_check(plan, Verb::Check, command, Some(&cost))?)?;
    let pending = Arc::new(PendingCheck::new(&check));
    Ok(Next::Line(InLine { pending, within, json: options.json }))
}

impl InLine {
    /// Writes what came of it.
    pub(super) fn write(
        &self,
        engine: &Engine,
        waited: Result<Reply, WaitError>,
        replies: &mut Replies,
    ) {
        let plan = engine.plan();
        let decided = waited.and_then(|decided| Ok((self.pending.check(&plan)?, decided)));
        match decided {
            Ok((check, decided)) => {
                let options = Options { json: self.json, ..Options::default() };
                write(&check, &decided, options, replies);
            }
            Err(WaitError::NoRoom) => {
                replies.error("BUSY too many callers wait already; try again");
            }
            Err(WaitError::Stopping) => replies.error("BUSY the server is stopping; try again"),
            Err(WaitError::Store(error)) => replies.append(Err(error)),
        }
    }
}

/// The decision as `/v1/check` gives it, and the response header fields of the policy's style.
fn in_json(check: &Check<'_>, decided: &Reply, reservation: Option<Reservation<'_>>) -> String {
    #[derive(Serialize)]
    struct Answer<'a> {
        #[serde(flatten)]
        decision: DecisionLine<'a>,
        headers: BTreeMap<&'static str, String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reservation: Option<Reservation<'a>>,
    }
    let headers = HeaderFields::for_check([decided.styled(check.policy)]).into_iter().collect();
    let answer = Answer { decision: decided.line(check), headers, reservation };
    // Text, numbers and lists can always be written.
    serde_json::to_string(&answer).unwrap_or_default()
}

/// `RL.RESERVE policy key cost ttl_ms [TIER name] [FACTOR decimal] [ID id] [RELEASE] [JSON]`. The reply has six numbers
/// and the reservation's id, if it was made.
pub(super) fn reserve<'t>(
    engine: &'t Engine,
    plan: &'t Plan,
    command: Command<'t, '_>,
    replies: &Replies,
) -> Result<Next<'t>, ErrorReply> {
    let cost = parse_cost(command.get(3).unwrap_or_default())?;
    let ttl = Some(parse_ttl(command.get(4).unwrap_or_default())?);
    let options = Options::read_words(command, 5, true)?;
    let check = to_check(plan, Verb::Check, command, Some(&cost))?;
    let check = options.apply_to(check)?;
    let mut reply = replies.another();
    Ok(Next::wait_alone(async move {
        let terms = Terms { id: options.id, ttl, on_expiry: options.on_expiry };
        let holding = engine.reserve(Face::Resp, terms, std::slice::from_ref(&check)).await?;
        let decided = holding.replies.first().ok_or_else(missing_answer)?;
        let reservation = holding.reservation.as_ref();
        if options.json {
            let made = reservation.map(|(id, expires_in)| Reservation::new(id, *expires_in));
            reply.bulk(in_json(&check, decided, made).as_bytes());
            return Ok(reply);
        }
        reply.array(NUMBERS + 1);
        write_numbers(&check.cost, &decided.answer.decision, &mut reply);
        match reservation {
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
    let id = reservation_id(command.get(1).unwrap_or_default())?;
    let mut reply = replies.another();
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
) -> Result<Check<'t>, ErrorReply> {
    let (name, key) = (command.get(1).unwrap_or_default(), command.get(2).unwrap_or_default());
    check_of(plan, verb, name, key, cost)
}

#[inline]
pub(super) fn check_of<'t>(
    plan: &'t Plan,
    verb: Verb,
    name: &[u8],
    key: &'t [u8],
    cost: Option<&Cost>,
) -> Result<Check<'t>, ErrorReply> {
    let (policy, key) = policy_and_key(plan, name, key)?;
    Check::new(policy, key, verb, cost).map_err(|error| format!("ERR {error}").into())
}

#[inline]
pub(super) fn policy_and_key<'t>(
    plan: &'t Plan,
    name: &[u8],
    key: &'t [u8],
) -> Result<(&'t ActivePolicy, Key<'t>), ErrorReply> {
    let Some(policy) = std::str::from_utf8(name).ok().and_then(|name| plan.policy(name)) else {
        return Err(unknown_policy(plan, name));
    };
    let key = policy.key(key).map_err(|error| format!("ERR {error}"))?;
    Ok((policy, key))
}

/// A whole number, or `requests=1,tokens=800` for a policy that counts several units.
#[inline]
pub(super) fn parse_cost(argument: &[u8]) -> Result<Cost, String> {
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

fn parse_within(argument: &[u8]) -> Result<Duration, String> {
    let millis = std::str::from_utf8(argument).ok().and_then(|text| text.parse().ok());
    let within = millis.map(Duration::from_millis);
    within.filter(|within| *within <= MAX_WITHIN).ok_or_else(|| {
        let most = MAX_WITHIN.as_millis();
        let found = shown(argument, 128);
        format!("ERR within_ms must be from 0 to {most} milliseconds, not '{found}'")
    })
}

fn reservation_id(id: &[u8]) -> Result<&str, String> {
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
pub(super) fn unknown_policy(plan: &Plan, name: &[u8]) -> ErrorReply {
    let name = shown(name, 64);
    let text = format!("ERR there is no policy '{name}'{}", plan.hint(&name));
    ErrorReply { unknown_policy: Some(name), ..text.into() }
}

/// How many numbers tell a decision.
const NUMBERS: usize = 6;

#[inline]
fn write_numbers(cost: &Cost, decision: &Decision, replies: &mut Replies) {
    let units = |units: Option<u64>| units.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
    replies.integer(decision.is_allowed().into());
    replies.integer(units(decision.limit()));
    replies.integer(units(decision.remaining()));
    replies.integer(decision.retry_after().map_or(-1, millis));
    replies.integer(millis(decision.reset_after()));
    // Of several units, requests.
    let granted = match cost.plain() {
        Some(_) => decision.granted(),
        None => cost.granted(decision.granted()).of("requests"),
    };
    replies.integer(i64::try_from(granted).unwrap_or(i64::MAX));
}

/// Rounded up.
fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

//! One check, on the servers that hold its keys.

use std::sync::Arc;

use redis::Value;
use tokio::time::{Instant, timeout_at};
use waterclock::{Answer, Cost, Failure, Outcome, Policy, StoreError, Timestamp, Verb};

use crate::entry::{Entry, REMEMBERED};
use crate::held::{Held, answer_all};
use crate::keyspace::RecordKey;
use crate::link::{Ask, TraceTime};
use crate::script::{ADJUST, CHECK, CHECK_ANY, REMEMBER, REPLACE, REPORT, Script};
use crate::shape::{Carried, Costs, Elsewhere};
use crate::store::Inner;

/// How often a check is asked again because the edges of a calendar were others.
const CLOCK_ROUNDS: usize = 8;
/// How often a check is asked again because its record is elsewhere. Where others change the record in
/// between, each time one of them gets on.
const ROUNDS: usize = 256;
/// Records of a rehearsal are kept this long; that they expire is decided by the trace's time.
const REHEARSAL_MS: &str = "3600000";

/// Definitions are kept this long after a process last used them.
const A_YEAR_MS: &str = "31536000000";

/// What one key of one policy is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) entry: Arc<Entry>,
    pub(crate) record: RecordKey,
    pub(crate) cost: Cost,
}

impl Line {
    /// What each limit is asked for.
    pub(crate) fn costs(&self) -> Costs<'_> {
        Costs { policy: &self.entry.policy, cost: &self.cost }
    }
}

/// How the policy script is to treat the charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Apply(Verb),
    /// A check that tells what it wrote, so that it can be undone.
    Hold,
    /// Record as much as fits, whatever the policy's mode.
    Fill,
}

/// What a script found under a key, and what it left there if it was to tell.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) held: Held,
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) after: Option<Vec<u8>>,
}

/// Another script than that for checks, and what it reads before and after the charges.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    pub(crate) script: &'static Script,
    /// The reservation, where the script is about one.
    pub(crate) reservation: Option<RecordKey>,
    pub(crate) head: Vec<Vec<u8>>,
    pub(crate) tail: Vec<Vec<u8>>,
}

/// What a script told.
#[derive(Debug)]
pub(crate) enum Told {
    /// What it found under each key before it did what it was asked to.
    Found(Vec<Found>),
    /// It did nothing, because this is what is known of the reservation, at that instant.
    Known(Timestamp, Option<Vec<u8>>),
}

impl Found {
    fn nothing(line: &Line, now: Timestamp) -> Self {
        Self { held: Held::fresh(&line.entry.policy, now), before: None, after: None }
    }
}

impl Inner {
    /// Decides by the servers, and by nothing else.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        verb: Verb,
        lines: &[Line],
        by: Instant,
    ) -> Result<(Vec<Answer>, Vec<Found>), StoreError> {
        let verb = if verb == Verb::Refund && lines.iter().any(|line| line.entry.has_siblings()) {
            self.refund_where_they_lie(at, lines, by).await?;
            Verb::Peek
        } else {
            verb
        };
        let mut found = self.find(at, verb, lines, by).await?;
        Ok((answer_lines(verb, lines, &mut found), found))
    }

    /// Does it, and tells what was found before.
    pub(crate) async fn find(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        verb: Verb,
        lines: &[Line],
        by: Instant,
    ) -> Result<Vec<Found>, StoreError> {
        if self.are_together(lines) {
            self.run(at, How::Apply(verb), lines, by).await
        } else {
            self.run_apart(at, verb, lines, by).await
        }
    }

    /// Whether one script can reach all of them.
    pub(crate) fn are_together(&self, lines: &[Line]) -> bool {
        let slot = |line: &Line| line.record.slot;
        self.route.is_one() || lines.iter().all(|line| slot(line) == slot(&lines[0]))
    }

    /// Runs one script over lines that share a server (and, in a cluster, a slot). A server that answers
    /// something else is not listened to any longer.
    pub(crate) async fn run(
        &self,
        at: Option<Timestamp>,
        how: How,
        lines: &[Line],
        by: Instant,
    ) -> Result<Vec<Found>, StoreError> {
        match self.run_around(at, how, lines, None, by).await? {
            Told::Found(found) => Ok(found),
            Told::Known(..) => Err(bad_reply()),
        }
    }

    /// The same by another script.
    pub(crate) async fn run_around(
        &self,
        at: Option<Timestamp>,
        how: How,
        lines: &[Line],
        around: Option<&Around>,
        by: Instant,
    ) -> Result<Told, StoreError> {
        let told = self.ask_about(at, how, lines, around, by).await;
        if let (Err(error), Some(line)) = (&told, lines.first())
            && error.failure() == Some(Failure::BadReply)
        {
            // Somebody may be dialling already, for longer than this caller would wait.
            _ = timeout_at(by, self.route.distrust(line.record.slot)).await;
        }
        told
    }

    async fn ask_about(
        &self,
        at: Option<Timestamp>,
        how: How,
        lines: &[Line],
        around: Option<&Around>,
        by: Instant,
    ) -> Result<Told, StoreError> {
        let Some(first) = lines.first() else { return Ok(Told::Found(Vec::new())) };
        let slot = first.record.slot;
        let trace = trace(at);
        if let Some(ask) = short(how, lines, &trace).filter(|_| around.is_none()) {
            let values = self.route.ask(slot, ask, by).await?;
            return read_found(lines, &values).map(Told::Found);
        }
        let mut carried: Vec<Vec<Carried>> = lines.iter().map(|_| Vec::new()).collect();
        let mut by_clock = 0;
        for _ in 0..ROUNDS + lines.len() {
            let expected = at.unwrap_or_else(|| self.route.expected_now(slot));
            let ask = call(how, lines, &carried, around, &trace, expected);
            let values = self.route.ask(slot, ask, by).await?;
            match &*values {
                [Value::Int(now)] if how == How::Apply(Verb::Reset) => {
                    let now = instant(*now)?;
                    let nothing = lines.iter().map(|line| Found::nothing(line, now));
                    return Ok(Told::Found(nothing.collect()));
                }
                // Not within the edges of a calendar that were passed; by now the clock is known.
                [Value::Int(now)] if by_clock < CLOCK_ROUNDS => {
                    by_clock += 1;
                    self.route.heard_clock(slot, instant(*now)?);
                }
                [Value::Int(now), Value::Array(elsewhere)]
                    if let Some((line, generation, record)) = read_elsewhere(elsewhere) =>
                {
                    let (asked, known) =
                        lines.get(line).zip(carried.get_mut(line)).ok_or_else(bad_reply)?;
                    let there = asked.entry.elsewhere().nth(generation - 1);
                    let there = there.ok_or_else(bad_reply)?;
                    known.retain(|other| other.generation != generation);
                    known.push(carry(&asked.entry, there, generation, record, instant(*now)?)?);
                }
                [Value::Int(now), Value::Array(known)]
                    if around.is_some()
                        && let [known] = &**known =>
                {
                    return Ok(Told::Known(instant(*now)?, bytes(known)?));
                }
                _ => return read_found(lines, &values).map(Told::Found),
            }
        }
        Err(StoreError::failed(Failure::Overloaded, "others change this key again and again"))
    }

    /// Gives units back under the policies that the keys were last charged under: they are the same units,
    /// and a smaller limit would forget what a larger one counted.
    async fn refund_where_they_lie(
        &self,
        at: Option<Timestamp>,
        lines: &[Line],
        by: Instant,
    ) -> Result<(), StoreError> {
        for line in lines {
            let mut line = line.clone();
            if line.entry.has_siblings()
                && let Some(there) = self.whereabouts(at, &line, by).await?
            {
                line = Line { record: line.record.under(there.mark), entry: there, ..line };
            }
            self.run(at, How::Apply(Verb::Refund), &[line], by).await?;
        }
        Ok(())
    }

    /// The definition under which a key has a record, if it is not its own.
    async fn whereabouts(
        &self,
        at: Option<Timestamp>,
        line: &Line,
        by: Instant,
    ) -> Result<Option<Arc<Entry>>, StoreError> {
        let slot = line.record.slot;
        let expected = at.unwrap_or_else(|| self.route.expected_now(slot));
        let how = How::Apply(Verb::Peek);
        let ask = call(how, std::slice::from_ref(line), &[Vec::new()], None, &trace(at), expected);
        match &*self.route.ask(slot, ask, by).await? {
            [Value::Int(_), Value::Array(elsewhere)] => {
                let (_, generation, _) = read_elsewhere(elsewhere).ok_or_else(bad_reply)?;
                Ok(line.entry.elsewhere().nth(generation - 1).cloned())
            }
            _ => Ok(None),
        }
    }

    /// Keeps a policy's definition: the server's second, and all that are kept by then.
    pub(crate) async fn remember(&self, entry: &Entry) -> Result<(u64, String), StoreError> {
        let key = self.keyspace.definitions(entry.policy.name());
        let most = (REMEMBERED + 1).to_string();
        let args = [&*entry.definition(), entry.mark.letters(), A_YEAR_MS, &most];
        let args = args.map(|arg| arg.as_bytes().to_vec()).into();
        let ask = Ask::Call { script: &REMEMBER, keys: vec![key.clone()], args };
        match &*self.route.ask(key.slot, ask, Instant::now() + self.deadline).await? {
            [Value::Int(second), Value::BulkString(all)] => {
                let second = u64::try_from(*second).map_err(|_| bad_reply())?;
                Ok((second, String::from_utf8(all.clone()).map_err(|_| bad_reply())?))
            }
            _ => Err(bad_reply()),
        }
    }

    /// Puts a record in another's place, if that is still what it was; whether it was.
    pub(crate) async fn replace(
        &self,
        from: &RecordKey,
        to: &RecordKey,
        expected: &[u8],
        record: Option<(Vec<u8>, u64)>,
        by: Instant,
    ) -> Result<bool, StoreError> {
        let (record, ttl_ms) = record.unwrap_or_default();
        let args = vec![expected.to_vec(), record, ttl_ms.to_string().into_bytes()];
        let keys = vec![from.clone(), to.clone()];
        let ask = Ask::Call { script: &REPLACE, keys, args };
        match *self.route.ask(from.slot, ask, by).await? {
            [Value::Int(1)] => Ok(true),
            [Value::Int(0)] => Ok(false),
            _ => Err(bad_reply()),
        }
    }
}

pub(crate) fn trace(at: Option<Timestamp>) -> Option<TraceTime> {
    let now_us = at.map(|at| (at.as_nanos() / 1_000).to_string());
    now_us.map(|now_us| TraceTime { now_us, ttl_ms: REHEARSAL_MS })
}

/// A script's question back: whose line, which other definition (from 1), and the record found there.
fn read_elsewhere(question: &[Value]) -> Option<(usize, usize, &[u8])> {
    let [Value::Int(line), Value::Int(generation), Value::BulkString(record)] = question else {
        return None;
    };
    let generation = usize::try_from(*generation).ok().filter(|generation| *generation > 0)?;
    Some((usize::try_from(line - 1).ok()?, generation, record))
}

/// What a record of another definition means to this one.
fn carry(
    to: &Entry,
    from: &Entry,
    generation: usize,
    found: &[u8],
    now: Timestamp,
) -> Result<Carried, StoreError> {
    let held = Held::read(&from.policy, &from.shape, Some(found), now)
        .map_err(|_| StoreError::failed(Failure::Foreign, "a record that is not ours"))?;
    let migration = to.family.as_ref().map(|family| family.migration).unwrap_or_default();
    let carried = held.carried(&from.policy, &to.policy, migration);
    let record = carried.record(&to.policy, &to.shape);
    let record = record.map(|(record, _)| record).unwrap_or_default();
    let moves = generation <= to.older.len();
    Ok(Carried { generation, found: found.to_vec(), record, moves })
}

/// The answers to a check, from what was found before it.
pub(crate) fn answer_lines(verb: Verb, lines: &[Line], found: &mut [Found]) -> Vec<Answer> {
    let mut states: Vec<(&Policy, &mut Held, &Cost)> = lines
        .iter()
        .zip(found)
        .map(|(line, found)| (&line.entry.policy, &mut found.held, &line.cost))
        .collect();
    answer_all(verb, &mut states)
}

/// The question for the policy script; `expected` is about when it will run.
fn call(
    how: How,
    lines: &[Line],
    carried: &[Vec<Carried>],
    around: Option<&Around>,
    trace: &Option<TraceTime>,
    expected: Timestamp,
) -> Ask {
    let (verb, mode) = match how {
        How::Apply(Verb::Check) => ("check", None),
        How::Apply(Verb::Peek) => ("peek", None),
        How::Apply(Verb::Debit) => ("debit", None),
        How::Apply(Verb::Report(_)) => ("report", None),
        How::Apply(Verb::Refund) => ("refund", None),
        How::Apply(Verb::Reset) => ("reset", None),
        How::Hold => ("hold", None),
        How::Fill => ("check", Some("nary")),
    };
    let (now, net) = trace.as_ref().map_or(("", ""), |trace| (&trace.now_us, trace.ttl_ms));
    let mut args: Vec<Vec<u8>> =
        [now, net, verb, &*lines.len().to_string()].map(|arg| arg.as_bytes().to_vec()).into();
    args.extend(around.iter().flat_map(|around| around.head.clone()));
    let mut keys = Vec::with_capacity(lines.len() + 1);
    for (line, carried) in lines.iter().zip(carried) {
        keys.push(line.record.clone());
        let before = keys.len();
        keys.extend(line.entry.elsewhere().map(|there| line.record.under(there.mark)));
        let elsewhere = Elsewhere { definitions: keys.len() - before, carried };
        line.entry.shape.write_args(&mut args, line.costs(), mode, &elsewhere, expected);
    }
    let script: &'static Script = match around {
        Some(Around { script, reservation, tail, .. }) => {
            args.extend_from_slice(tail);
            keys.extend(reservation.clone());
            script
        }
        None if how == How::Apply(Verb::Debit) => {
            lines.iter().for_each(|line| line.entry.shape.write_debit(&mut args, line.costs()));
            &ADJUST
        }
        None if let How::Apply(Verb::Report(outcome)) = how => {
            args.push(if outcome == Outcome::Ok { b"ok".to_vec() } else { b"error".to_vec() });
            &REPORT
        }
        None if lines.iter().any(|line| line.entry.shape.is_rare()) => &CHECK_ANY,
        None => &CHECK,
    };
    Ask::Call { script, keys, args }
}

/// The question for the short script, if it is one.
fn short(how: How, lines: &[Line], trace: &Option<TraceTime>) -> Option<Ask> {
    let [line] = lines else { return None };
    let eligible = how == How::Apply(Verb::Check)
        && !line.cost.is_zero()
        && !line.entry.has_older_records()
        && !line.entry.has_siblings();
    let plain = line.entry.shape.decided_in_short().filter(|_| eligible)?;
    // More than ever fits is refused whatever it takes.
    let span = line.cost.most().saturating_mul(plain.unit_us);
    let span_us = span.min(plain.depth_us + 1);
    let (key, depth_us, at) = (line.record.clone(), plain.depth_us, trace.clone());
    Some(Ask::Short { key, span_us, depth_us, at })
}

/// What was found under each line's key.
fn read_found(lines: &[Line], values: &[Value]) -> Result<Vec<Found>, StoreError> {
    let [Value::Int(now), records @ ..] = values else { return Err(bad_reply()) };
    if records.len() != lines.len() {
        return Err(bad_reply());
    }
    let now = instant(*now)?;
    let read = |(line, record): (&Line, &Value)| {
        let (before, after) = match record {
            Value::Array(both) if let [before, after] = &**both => (bytes(before)?, bytes(after)?),
            before => (bytes(before)?, None),
        };
        let held = Held::read(&line.entry.policy, &line.entry.shape, before.as_deref(), now);
        let held =
            held.map_err(|_| StoreError::failed(Failure::Foreign, "a record that is not ours"))?;
        Ok(Found { held, before, after })
    };
    lines.iter().zip(records).map(read).collect()
}

pub(crate) fn bytes(value: &Value) -> Result<Option<Vec<u8>>, StoreError> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes.clone())),
        _ => Err(bad_reply()),
    }
}

/// An instant of the server's clock, within what can be told apart.
pub(crate) fn instant(now_us: i64) -> Result<Timestamp, StoreError> {
    let now = u64::try_from(now_us).ok().filter(|now| *now <= Timestamp::MAX.as_nanos() / 1_000);
    now.map(Timestamp::from_micros).ok_or_else(bad_reply)
}

pub(crate) fn bad_reply() -> StoreError {
    StoreError::failed(Failure::BadReply, "a script answered something else")
}

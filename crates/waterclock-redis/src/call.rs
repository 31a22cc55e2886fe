//! One script call about the keys of a check, on the server that holds them.

use std::sync::Arc;

use redis::Value;
use tokio::time::{Instant, timeout_at};
use waterclock::{Answer, Cost, Failure, Outcome, StoreError, Timestamp, Verb};

use crate::direct::Direct;
use crate::keyspace::RecordKey;
use crate::link::{Request, TraceTime};
use crate::policies::Entry;
use crate::script::{ADJUST, CHECK, CHECK_ANY, REPLACE, REPORT, Script};
use crate::shape::{Carried, Costs, Elsewhere};
use crate::state::{KeyState, Question, answer_all};

/// How often a call is repeated because the edges of a calendar window that were sent do not fit the server's clock.
const CLOCK_ROUNDS: usize = 8;
/// How often a call is repeated because the record was written under another definition. If other callers change the
/// record in between, each round lets one of them proceed.
const ROUNDS: usize = 256;
/// Records of a rehearsal are kept this long; the trace's time decides when they expire.
const REHEARSAL_MS: &str = "3600000";

/// One key of one policy, and what is asked of it.
#[derive(Clone, Debug)]
pub(crate) struct KeyCharge {
    pub(crate) entry: Arc<Entry>,
    pub(crate) record: RecordKey,
    pub(crate) cost: Cost,
}

impl KeyCharge {
    /// What each limit is asked for.
    pub(crate) fn costs(&self) -> Costs<'_> {
        Costs { policy: &self.entry.policy, cost: &self.cost }
    }
}

/// A script call: what to do with some keys that share a server (and, in a cluster, a slot).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) action: Action,
    pub(crate) keys: &'a [KeyCharge],
    /// The instant of a trace, instead of the server's own.
    pub(crate) at: Option<Timestamp>,
    /// When the caller stops waiting.
    pub(crate) by: Instant,
}

/// What a script does with the charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Apply(Verb),
    /// A check that returns what it wrote, so that it can be undone.
    Hold,
    /// Record as much as fits, whatever the policy's mode.
    Fill,
}

/// What a script found under a key and, after [`Action::Hold`], what it left there.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) state: KeyState,
    pub(crate) before: Option<Vec<u8>>,
    pub(crate) after: Option<Vec<u8>>,
}

/// Another script than the one for checks, and its arguments before and after the charges.
#[derive(Clone, Debug)]
pub(crate) struct OtherScript {
    pub(crate) script: &'static Script,
    /// The reservation that the script is about.
    pub(crate) reservation: Option<RecordKey>,
    pub(crate) head: Vec<Vec<u8>>,
    pub(crate) tail: Vec<Vec<u8>>,
}

/// What a script replied.
#[derive(Debug)]
pub(crate) enum Reply {
    /// What it found under each key before it did its work.
    Found(Vec<Found>),
    /// It did nothing, because this is the record of the reservation at that instant.
    Known(Timestamp, Option<Vec<u8>>),
}

impl<'a> Call<'a> {
    /// Applies a verb by the server's clock.
    pub(crate) fn now(verb: Verb, keys: &'a [KeyCharge], by: Instant) -> Self {
        Self { action: Action::Apply(verb), keys, at: None, by }
    }

    /// The request for the short script, if it can decide this.
    fn short(&self) -> Option<Request> {
        let [key] = self.keys else { return None };
        let is_eligible = self.action == Action::Apply(Verb::Check)
            && !key.cost.is_zero()
            && !key.entry.has_older_records()
            && !key.entry.has_siblings();
        let plain = key.entry.shape.decided_in_short().filter(|_| is_eligible)?;
        // A cost above the capacity is always refused.
        let span = key.cost.most().saturating_mul(plain.unit_us);
        let span_us = span.min(plain.depth_us + 1);
        let (key, depth_us, at) = (key.record.clone(), plain.depth_us, trace(self.at));
        Some(Request::Short { key, span_us, depth_us, at })
    }

    /// The request for a policy script; `expected` is about when it will run.
    fn request(
        &self,
        carried: &[Vec<Carried>],
        other: Option<&OtherScript>,
        expected: Timestamp,
    ) -> Request {
        let (verb, mode) = match self.action {
            Action::Apply(verb) => (verb.name(), None),
            Action::Hold => ("hold", None),
            Action::Fill => ("check", Some("nary")),
        };
        let trace = trace(self.at);
        let (now, ttl) = trace.as_ref().map_or(("", ""), |trace| (&trace.now_us, trace.ttl_ms));
        let count = self.keys.len().to_string();
        let mut args: Vec<Vec<u8>> =
            [now, ttl, verb, &*count].map(|arg| arg.as_bytes().to_vec()).into();
        args.extend(other.iter().flat_map(|other| other.head.clone()));
        let mut keys = Vec::with_capacity(self.keys.len() + 1);
        for (key, carried) in self.keys.iter().zip(carried) {
            keys.push(key.record.clone());
            let before = keys.len();
            keys.extend(key.entry.elsewhere().map(|there| key.record.under(there.mark)));
            let elsewhere = Elsewhere { definitions: keys.len() - before, carried };
            key.entry.shape.write_args(&mut args, key.costs(), mode, &elsewhere, expected);
        }
        let script: &'static Script = match other {
            Some(OtherScript { script, reservation, tail, .. }) => {
                args.extend_from_slice(tail);
                keys.extend(reservation.clone());
                script
            }
            None if self.action == Action::Apply(Verb::Debit) => {
                self.keys
                    .iter()
                    .for_each(|key| key.entry.shape.write_debit(&mut args, key.costs()));
                &ADJUST
            }
            None if let Action::Apply(Verb::Report(outcome)) = self.action => {
                args.push(if outcome == Outcome::Ok { b"ok".to_vec() } else { b"error".to_vec() });
                &REPORT
            }
            None if self.keys.iter().any(|key| key.entry.shape.is_rare()) => &CHECK_ANY,
            None => &CHECK,
        };
        Request::Script { script, keys, args }
    }
}

impl Direct {
    /// Runs a call, and returns what was found under each key before it.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<Vec<Found>, StoreError> {
        let Some(first) = call.keys.first() else { return Ok(Vec::new()) };
        let slot = first.record.slot;
        let Some(request) = call.short() else {
            return match self.run_script(call, None).await? {
                Reply::Found(found) => Ok(found),
                Reply::Known(..) => Err(bad_reply()),
            };
        };
        let values = self.route.send(slot, request, call.by).await;
        let found = values.and_then(|values| read_found(call.keys, &values));
        self.distrust_bad_reply(slot, call.by, found.as_ref().err()).await;
        found
    }

    /// Runs a call by a policy script, or by another one.
    pub(crate) async fn run_script(
        &self,
        call: Call<'_>,
        other: Option<&OtherScript>,
    ) -> Result<Reply, StoreError> {
        let Some(first) = call.keys.first() else { return Ok(Reply::Found(Vec::new())) };
        let slot = first.record.slot;
        let reply = self.run_rounds(slot, call, other).await;
        self.distrust_bad_reply(slot, call.by, reply.as_ref().err()).await;
        reply
    }

    /// Closes a connection that sent an unexpected reply.
    async fn distrust_bad_reply(&self, slot: u16, by: Instant, error: Option<&StoreError>) {
        if error.is_some_and(|error| error.failure() == Some(Failure::BadReply)) {
            // Another task may be connecting, for longer than this caller waits.
            _ = timeout_at(by, self.route.distrust(slot)).await;
        }
    }

    /// Repeats a call for which the script asked for more: edges of a calendar window, or the translation of a record
    /// that was written under another definition.
    async fn run_rounds(
        &self,
        slot: u16,
        call: Call<'_>,
        other: Option<&OtherScript>,
    ) -> Result<Reply, StoreError> {
        let keys = call.keys;
        let mut carried: Vec<Vec<Carried>> = keys.iter().map(|_| Vec::new()).collect();
        let mut by_clock = 0;
        for _ in 0..ROUNDS + keys.len() {
            let expected = call.at.unwrap_or_else(|| self.route.expected_now(slot));
            let request = call.request(&carried, other, expected);
            let values = self.route.send(slot, request, call.by).await?;
            match &*values {
                [Value::Int(now)] if call.action == Action::Apply(Verb::Reset) => {
                    let now = instant(*now)?;
                    return Ok(Reply::Found(
                        keys.iter().map(|key| Found::nothing(key, now)).collect(),
                    ));
                }
                // Not within the edges of a calendar that were passed; by now the clock is known.
                [Value::Int(now)] if by_clock < CLOCK_ROUNDS => {
                    by_clock += 1;
                    self.route.note_clock(slot, instant(*now)?);
                }
                [Value::Int(now), Value::Array(elsewhere)]
                    if read_elsewhere(elsewhere).is_some() =>
                {
                    let (key, generation, record) =
                        read_elsewhere(elsewhere).ok_or_else(bad_reply)?;
                    let (key, known) =
                        keys.get(key).zip(carried.get_mut(key)).ok_or_else(bad_reply)?;
                    let there = key.entry.elsewhere().nth(generation - 1);
                    let there = there.ok_or_else(bad_reply)?;
                    known.retain(|other| other.generation != generation);
                    known.push(carry(&key.entry, there, generation, record, instant(*now)?)?);
                }
                [Value::Int(now), Value::Array(known)] if other.is_some() && known.len() == 1 => {
                    return Ok(Reply::Known(instant(*now)?, bytes(&known[0])?));
                }
                _ => return read_found(keys, &values).map(Reply::Found),
            }
        }
        Err(StoreError::failed(Failure::Overloaded, "other callers keep changing this key"))
    }

    /// Refunds units under the policies that the keys were last charged under: a smaller limit would drop usage that a
    /// larger one counted.
    pub(crate) async fn refund_where_charged(&self, call: Call<'_>) -> Result<(), StoreError> {
        for key in call.keys {
            let mut key = key.clone();
            if key.entry.has_siblings()
                && let Some(there) = self.charged_under(call, &key).await?
            {
                key = KeyCharge { record: key.record.under(there.mark), entry: there, ..key };
            }
            let action = Action::Apply(Verb::Refund);
            self.run(Call { action, keys: std::slice::from_ref(&key), ..call }).await?;
        }
        Ok(())
    }

    /// The definition under which a key has a record, if it is not its own.
    async fn charged_under(
        &self,
        call: Call<'_>,
        key: &KeyCharge,
    ) -> Result<Option<Arc<Entry>>, StoreError> {
        let slot = key.record.slot;
        let expected = call.at.unwrap_or_else(|| self.route.expected_now(slot));
        let keys = std::slice::from_ref(key);
        let peek = Call { action: Action::Apply(Verb::Peek), keys, ..call };
        let request = peek.request(&[Vec::new()], None, expected);
        match &*self.route.send(slot, request, call.by).await? {
            [Value::Int(_), Value::Array(elsewhere)] => {
                let (_, generation, _) = read_elsewhere(elsewhere).ok_or_else(bad_reply)?;
                Ok(key.entry.elsewhere().nth(generation - 1).cloned())
            }
            _ => Ok(None),
        }
    }

    /// Replaces a record if it still equals `expected`; returns whether it did.
    pub(crate) async fn replace(
        &self,
        key: &RecordKey,
        expected: &[u8],
        record: Option<(Vec<u8>, u64)>,
        by: Instant,
    ) -> Result<bool, StoreError> {
        let (record, ttl_ms) = record.unwrap_or_default();
        let args = vec![expected.to_vec(), record, ttl_ms.to_string().into_bytes()];
        let keys = vec![key.clone(), key.clone()];
        let request = Request::Script { script: &REPLACE, keys, args };
        match *self.route.send(key.slot, request, by).await? {
            [Value::Int(1)] => Ok(true),
            [Value::Int(0)] => Ok(false),
            _ => Err(bad_reply()),
        }
    }
}

impl Found {
    fn nothing(key: &KeyCharge, now: Timestamp) -> Self {
        Self { state: KeyState::fresh(&key.entry.policy, now), before: None, after: None }
    }
}

/// The answers to a check, from what was found before it.
pub(crate) fn answer_keys(verb: Verb, keys: &[KeyCharge], found: &mut [Found]) -> Vec<Answer> {
    let mut questions: Vec<Question<'_>> = Vec::with_capacity(keys.len());
    for (key, found) in keys.iter().zip(found) {
        let (policy, cost) = (&key.entry.policy, &key.cost);
        questions.push(Question { policy, state: &mut found.state, cost });
    }
    answer_all(verb, &mut questions)
}

pub(crate) fn trace(at: Option<Timestamp>) -> Option<TraceTime> {
    let now_us = at.map(|at| (at.as_nanos() / 1_000).to_string());
    now_us.map(|now_us| TraceTime { now_us, ttl_ms: REHEARSAL_MS })
}

/// A script's question back: which key, which other definition (from 1), and the record found there.
fn read_elsewhere(question: &[Value]) -> Option<(usize, usize, &[u8])> {
    let [Value::Int(key), Value::Int(generation), Value::BulkString(record)] = question else {
        return None;
    };
    let generation = usize::try_from(*generation).ok().filter(|generation| *generation > 0)?;
    Some((usize::try_from(key - 1).ok()?, generation, record))
}

/// Translates a record that was written under another definition.
fn carry(
    to: &Entry,
    from: &Entry,
    generation: usize,
    found: &[u8],
    now: Timestamp,
) -> Result<Carried, StoreError> {
    let state = KeyState::read(&from.policy, &from.shape, Some(found), now);
    let migration = to.family.as_ref().map(|family| family.migration).unwrap_or_default();
    let carried = state.map_err(|_| foreign())?.carried(&from.policy, &to.policy, migration);
    let record = carried.record(&to.policy, &to.shape);
    let record = record.map(|(record, _)| record).unwrap_or_default();
    let moves = generation <= to.older.len();
    Ok(Carried { generation, found: found.to_vec(), record, moves })
}

/// What was found under each key.
fn read_found(keys: &[KeyCharge], values: &[Value]) -> Result<Vec<Found>, StoreError> {
    let [Value::Int(now), records @ ..] = values else { return Err(bad_reply()) };
    if records.len() != keys.len() {
        return Err(bad_reply());
    }
    let now = instant(*now)?;
    let read = |(key, record): (&KeyCharge, &Value)| {
        let (before, after) = match record {
            Value::Array(both) if both.len() == 2 => (bytes(&both[0])?, bytes(&both[1])?),
            before => (bytes(before)?, None),
        };
        let state = KeyState::read(&key.entry.policy, &key.entry.shape, before.as_deref(), now);
        Ok(Found { state: state.map_err(|_| foreign())?, before, after })
    };
    keys.iter().zip(records).map(read).collect()
}

pub(crate) fn bytes(value: &Value) -> Result<Option<Vec<u8>>, StoreError> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes.clone())),
        _ => Err(bad_reply()),
    }
}

/// An instant of the server's clock, if it is one that a [`Timestamp`] can hold.
pub(crate) fn instant(now_us: i64) -> Result<Timestamp, StoreError> {
    let now = u64::try_from(now_us).ok().filter(|now| *now <= Timestamp::MAX.as_nanos() / 1_000);
    now.map(Timestamp::from_micros).ok_or_else(bad_reply)
}

pub(crate) fn bad_reply() -> StoreError {
    StoreError::failed(Failure::BadReply, "a script returned an unexpected reply")
}

pub(crate) fn foreign() -> StoreError {
    StoreError::failed(Failure::Foreign, "the key holds a record that is not ours")
}

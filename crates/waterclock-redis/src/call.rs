//! One script call about the keys of a check, on the server that holds them.

use std::sync::Arc;

use redis::Value;
use tokio::time::Instant;
use waterclock::{Answer, Cost, Failure, Outcome, StoreError, Timestamp, Verb};

use crate::direct::Direct;
use crate::due;
use crate::keyspace::{DueId, RecordKey};
use crate::link::{CallError, Request, TraceTime};
use crate::policies::Entry;
use crate::prefix::{Parts, Seen};
use crate::script::{Algorithms, Kind, REPLACE, RESET};
use crate::shape::{Costs, Translation, putting};
use crate::slots::always_records;
use crate::state::{KeyState, Question, answer_all};

/// How often a call is repeated because the edges of a calendar window that were sent do not fit the server's clock.
const CLOCK_ROUNDS: usize = 8;
/// How often a call is repeated because the record was written by another definition. If other callers change the
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
    /// What stands before the state in the record.
    pub(crate) prefix: Vec<u8>,
    /// The override of the key, as it was last seen.
    pub(crate) kept: Option<Arc<Seen>>,
    pub(crate) standing: Standing,
}

/// What the override of a key leaves to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The limits decide.
    Limited,
    Blocked,
    Exempt,
    /// There are no limits to decide.
    Unlimited,
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
    /// A check that returns by which marks it can be undone. Unless it is confirmed within this time, the next script
    /// does so.
    Hold {
        id: DueId,
        hold_us: u64,
    },
    /// Record as much as fits, whatever the policy's mode.
    Fill,
    /// The same, and return by which marks it can be undone.
    FillMarked,
    /// A refund, or an undo, of a record that was written by the definition of the call. Any other record is left alone.
    Return,
}

/// What a script found under a key and, after [`Action::Hold`] or [`Action::FillMarked`], by which marks what it charged is undone.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) state: KeyState,
    pub(crate) marks: Option<Marks>,
}

#[derive(Clone, Debug)]
pub(crate) struct Marks {
    pub(crate) bytes: Vec<u8>,
    /// Whether they are noted as due, too.
    pub(crate) is_noted: bool,
}

impl Marks {
    /// Before the limits: a tag, two bytes and an instant.
    const HEAD: usize = 12;
    /// Of each limit four numbers of seven bytes; the first is how many units.
    const LIMIT: usize = 28;

    /// The marks of so many of these units.
    pub(crate) fn of_units(&self, units: u64) -> Option<Vec<u8>> {
        let mut bytes = self.bytes.clone();
        for limit in bytes.get_mut(Self::HEAD..)?.chunks_exact_mut(Self::LIMIT) {
            let charged = limit[..7].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
            limit[..7].copy_from_slice(&charged.min(units).to_be_bytes()[1..]);
        }
        Some(bytes)
    }
}

/// Another script than the one for checks, and its arguments before and after the charges.
#[derive(Clone, Debug)]
pub(crate) struct OtherScript {
    pub(crate) kind: Kind,
    /// The reservation that the script is about.
    pub(crate) reservation: Option<RecordKey>,
    /// Whether it changes what is due of the keys.
    pub(crate) changes_due: bool,
    pub(crate) head: Vec<Vec<u8>>,
    pub(crate) tail: Vec<Vec<u8>>,
}

/// What a script has asked back about a key.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) translation: Option<Translation>,
    /// Whether the script may touch what is due of it.
    pub(crate) is_due_declared: bool,
}

/// What a script replied.
#[derive(Debug)]
pub(crate) enum Reply {
    /// The states of the keys: for a check as they were before, for any other verb as they are now.
    Found(Vec<Found>),
    /// It did nothing, because this is the record of the reservation at that instant.
    Known(Timestamp, Option<Vec<u8>>),
    /// It did nothing, because no more can be noted of a key.
    Full(StoreError),
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
            && key.prefix.is_empty();
        let plain = key.entry.shape.decided_in_short().filter(|_| is_eligible)?;
        // A cost above the capacity is always refused.
        let span = key.cost.most().saturating_mul(plain.unit_us);
        let span_us = span.min(plain.depth_us + 1);
        let (tag, at) = (key.entry.tag(), trace(self.at));
        Some(Request::Short { key: key.record.clone(), span_us, depth_us: plain.depth_us, tag, at })
    }

    /// The request for a script about policies; `expected` is about when it will run.
    pub(crate) fn request(
        &self,
        known: &[Known],
        other: Option<&OtherScript>,
        expected: Timestamp,
    ) -> Request {
        let (mut keys, mut args) = (Vec::with_capacity(self.keys.len() + 1), Vec::new());
        let mut algorithms = Algorithms::default();
        for (key, Known { translation, is_due_declared }) in self.keys.iter().zip(known) {
            keys.push(key.record.clone());
            algorithms = algorithms.and(key.entry.shape.algorithms());
            if *is_due_declared {
                keys.push(key.record.due());
                algorithms = algorithms.with_due();
            }
            let shape = &key.entry.shape;
            let (costs, translation) = (key.costs(), translation.as_ref());
            let asked = (&*key.prefix, costs);
            shape.write_args(&mut args, asked, translation, *is_due_declared, expected);
        }
        let (kind, head, tail) = match (other, self.action) {
            (Some(other), _) => {
                keys.extend(other.reservation.clone());
                (other.kind, other.head.clone(), other.tail.clone())
            }
            (None, Action::Apply(Verb::Debit)) => {
                let debit = |key: &KeyCharge| key.entry.shape.debit(key.costs());
                (Kind::Debit, vec![self.count()], self.keys.iter().map(debit).collect())
            }
            (None, Action::Apply(Verb::Report(outcome))) => {
                let mut head = self.count();
                head.push(if outcome == Outcome::Ok { b'o' } else { b'e' });
                (Kind::Report, vec![head], Vec::new())
            }
            (None, action) => {
                let verb = match action {
                    Action::Apply(Verb::Peek) => b'p',
                    Action::Apply(Verb::Refund) | Action::Return => b'r',
                    Action::Hold { .. } => b'h',
                    Action::Fill => b'f',
                    Action::FillMarked => b'l',
                    Action::Apply(_) => b'c',
                };
                let mut head = vec![verb];
                head.extend(self.count());
                if let Action::Hold { id: DueId(id), hold_us } = action {
                    args.insert(0, putting(id.to_vec(), hold_us));
                }
                for length in [args.len(), keys.len()] {
                    head.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
                }
                args.insert(0, head);
                let is_marked = matches!(action, Action::Hold { .. } | Action::FillMarked);
                let kind = if is_marked { Kind::Marked } else { Kind::Check };
                return Request::Check { kind, algorithms, keys, args, at: trace(self.at) };
            }
        };
        let args = [trace_args(self.at), head, args, tail].concat();
        Request::Script { script: kind.script(algorithms), keys, args }
    }

    /// Whether it charges whether or not there is room.
    fn charges_always(&self, other: Option<&OtherScript>) -> bool {
        let adjusts = |kind| matches!(kind, Kind::Settle | Kind::Finish | Kind::Undo);
        match other {
            Some(other) => adjusts(other.kind),
            None => matches!(self.action, Action::Apply(Verb::Debit | Verb::Report(_))),
        }
    }

    /// Whether a debit or a report changes a key.
    fn changes(&self, key: &KeyCharge) -> bool {
        match self.action {
            Action::Apply(Verb::Debit) => !key.cost.is_zero(),
            Action::Apply(Verb::Report(_)) => {
                !key.cost.is_zero() && key.entry.policy.takes_reports()
            }
            _ => true,
        }
    }

    /// How many keys there are, as a script reads it.
    pub(crate) fn count(&self) -> Vec<u8> {
        u16::try_from(self.keys.len()).unwrap_or(u16::MAX).to_be_bytes().into()
    }
}

impl Direct {
    /// Runs a call, and returns what was found under each key before it.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<Vec<Found>, StoreError> {
        let Some(first) = call.keys.first() else { return Ok(Vec::new()) };
        let slot = first.record.slot;
        let values = match call.short() {
            Some(request) => Some(self.route.send(slot, request, call.by).await),
            None => None,
        };
        // Not for the short script, or another definition wrote the record.
        let Some(values) = values
            .filter(|values| !matches!(values.as_deref(), Ok([Value::Int(_), Value::Array(_)])))
        else {
            return match self.run_script(call, None).await? {
                Reply::Found(found) => Ok(found),
                Reply::Known(..) | Reply::Full(_) => Err(bad_reply()),
            };
        };
        let found = values.and_then(|values| match &*values {
            [Value::Int(now), state] => read_found(call.keys, *now, std::slice::from_ref(state)),
            _ => Err(bad_reply()),
        });
        self.distrust_bad_reply(slot, found.as_ref().err());
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
        self.distrust_bad_reply(slot, reply.as_ref().err());
        reply
    }

    /// Closes a connection that sent an unexpected reply.
    fn distrust_bad_reply(&self, slot: u16, error: Option<&StoreError>) {
        if error.is_some_and(|error| error.failure() == Some(Failure::BadReply)) {
            self.route.distrust(slot);
        }
    }

    /// Repeats a call for which the script asked for more: edges of a calendar window, the key under which it is noted
    /// what is due, or the translation of a record that was written by another definition.
    async fn run_rounds(
        &self,
        slot: u16,
        call: Call<'_>,
        other: Option<&OtherScript>,
    ) -> Result<Reply, StoreError> {
        let keys = call.keys;
        if call.action == Action::Apply(Verb::Reset) && other.is_none() {
            return self.reset(slot, call).await;
        }
        let changes_due = |key: &KeyCharge| match other {
            Some(other) => other.changes_due,
            None => matches!(call.action, Action::Hold { .. }) && !always_records(key),
        };
        let unasked = |key| Known { translation: None, is_due_declared: changes_due(key) };
        let mut known: Vec<Known> = keys.iter().map(unasked).collect();
        let (mut by_clock, mut is_unnoted) = (0, false);
        for _ in 0..ROUNDS + keys.len() {
            let expected = call.at.unwrap_or_else(|| self.route.expected_now(slot));
            let request = call.request(&known, other, expected);
            let holds = request.holds() && !is_unnoted;
            let values = match self.route.try_to_send(slot, request, call.by).await {
                Err(CallError::Split(_)) if holds => {
                    // While a slot moves to another node, no key can be added to it.
                    is_unnoted = true;
                    known.iter_mut().for_each(|known| known.is_due_declared = false);
                    continue;
                }
                values => values.map_err(CallError::into_store_error)?,
            };
            let [Value::Int(now), Value::Array(reply)] = &*values else { return Err(bad_reply()) };
            match &**reply {
                // Not within the edges of a calendar that were passed; by now the clock is known.
                [Value::Int(0)] if by_clock < CLOCK_ROUNDS => {
                    by_clock += 1;
                    self.route.note_clock(slot, instant(*now)?);
                }
                [Value::Int(-1), known] if other.is_some() => {
                    return Ok(Reply::Known(instant(*now)?, bytes(known)?));
                }
                [Value::Int(-2), Value::Int(key)] if other.is_some() => {
                    let (key, _) = asked(keys, &mut known, *key)?;
                    return Ok(Reply::Full(due::full(key.entry.policy.name())));
                }
                [Value::Int(key)] if *key > 0 => {
                    asked(keys, &mut known, *key)?.1.is_due_declared = true;
                }
                // An undo says no more than that it was done.
                [] if other.is_some_and(|other| other.kind == Kind::Undo) => {
                    return Ok(Reply::Found(Vec::new()));
                }
                [Value::Int(_), Value::BulkString(_), ..] if call.action == Action::Return => {
                    return Ok(Reply::Found(Vec::new()));
                }
                [Value::Int(key), Value::BulkString(found), list @ ..] if list.len() < 2 => {
                    let (key, known) = asked(keys, &mut known, *key)?;
                    let (parts, now) = (Parts::of(found).ok_or_else(foreign)?, instant(*now)?);
                    self.compare_override(key, parts.kept.clone(), now)?;
                    if due::is_noted(parts.state) && list.is_empty() {
                        known.is_due_declared = true;
                        continue;
                    }
                    let list = list.first().map_or(Ok(None), bytes)?.unwrap_or_default();
                    let always =
                        call.charges_always(other) && (other.is_some() || call.changes(key));
                    let found = (&**found, parts, list);
                    let translated = self.translate(key, found, always, now, call.by);
                    known.translation = Some(translated.await?);
                }
                states => return read_found(keys, *now, states).map(Reply::Found),
            }
        }
        Err(StoreError::failed(Failure::Overloaded, "other callers keep changing this key"))
    }

    /// Removes records.
    async fn reset(&self, slot: u16, call: Call<'_>) -> Result<Reply, StoreError> {
        let keys = call.keys.iter().map(|key| key.record.clone()).collect();
        let request = Request::Script { script: &RESET, keys, args: trace_args(call.at) };
        match *self.route.send(slot, request, call.by).await? {
            [Value::Int(now)] => {
                let fresh = |key: &KeyCharge| {
                    let state = KeyState::fresh(&key.entry.policy, instant(now)?);
                    Ok(Found { state, marks: None })
                };
                call.keys.iter().map(fresh).collect::<Result<_, StoreError>>().map(Reply::Found)
            }
            _ => Err(bad_reply()),
        }
    }

    /// Replaces a reservation if it still equals `expected` and has not expired; returns whether it did.
    pub(crate) async fn replace(
        &self,
        at: Option<Timestamp>,
        key: &RecordKey,
        expected: &[u8],
        record: Option<(Vec<u8>, u64)>,
        by: Instant,
    ) -> Result<bool, StoreError> {
        let (record, ttl_ms) = record.unwrap_or_default();
        let mut args = trace_args(at);
        args.extend([expected.to_vec(), record, ttl_ms.to_string().into_bytes()]);
        let keys = vec![key.clone()];
        let request = Request::Script { script: &REPLACE, keys, args };
        match *self.route.send(key.slot, request, by).await? {
            [Value::Int(1)] => Ok(true),
            [Value::Int(0)] => Ok(false),
            _ => Err(bad_reply()),
        }
    }
}

/// The key that a script asks back about.
fn asked<'a>(
    keys: &'a [KeyCharge],
    known: &'a mut [Known],
    key: i64,
) -> Result<(&'a KeyCharge, &'a mut Known), StoreError> {
    let at = usize::try_from(key - 1).map_err(|_| bad_reply())?;
    keys.get(at).zip(known.get_mut(at)).ok_or_else(bad_reply)
}

/// The verb that the core applies to what a script replied: all but a check return the states as they are after it.
fn answered_as(verb: Verb) -> Verb {
    if verb == Verb::Check { verb } else { Verb::Peek }
}

/// The answers to a check, from what was found before it.
pub(crate) fn answer_keys(verb: Verb, keys: &[KeyCharge], found: &mut [Found]) -> Vec<Answer> {
    let mut questions: Vec<Question<'_>> = Vec::with_capacity(keys.len());
    for (key, found) in keys.iter().zip(found) {
        let (policy, cost) = (&key.entry.policy, &key.cost);
        questions.push(Question { policy, state: &mut found.state, cost });
    }
    let answers = answer_all(answered_as(verb), &mut questions);
    let both = answers.into_iter().zip(keys);
    both.map(|(answer, key)| answer.with_applied(key.applied())).collect()
}

/// The arguments that every script starts with.
pub(crate) fn trace_args(at: Option<Timestamp>) -> Vec<Vec<u8>> {
    TraceTime::args(trace(at).as_ref()).map(|arg| arg.as_bytes().to_vec()).into()
}

fn trace(at: Option<Timestamp>) -> Option<TraceTime> {
    let now_us = at.map(|at| (at.as_nanos() / 1_000).to_string());
    now_us.map(|now_us| TraceTime { now_us, ttl_ms: REHEARSAL_MS })
}

/// The state of each key, as a script replied it.
fn read_found(keys: &[KeyCharge], now: i64, states: &[Value]) -> Result<Vec<Found>, StoreError> {
    let now = instant(now)?;
    if states.len() != keys.len() {
        return Err(bad_reply());
    }
    let read = |(key, state): (&KeyCharge, &Value)| {
        let (state, marks) = match state {
            Value::Array(all) => match &**all {
                [state, Value::BulkString(marks), Value::Int(noted)] => {
                    let marks = Marks { bytes: marks.clone(), is_noted: *noted == 1 };
                    (bytes(state)?, Some(marks))
                }
                _ => return Err(bad_reply()),
            },
            state => (bytes(state)?, None),
        };
        let state = KeyState::of_reply(&key.entry.policy, &key.entry.shape, state.as_deref(), now);
        Ok(Found { state: state.map_err(|_| foreign())?, marks })
    };
    keys.iter().zip(states).map(read).collect()
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

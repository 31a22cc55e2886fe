//! Holding an estimate and settling the truth, on servers that every node can ask.
//!
//! What is held is charged as by a check. Beside it there is one record per reservation, found by its id,
//! that says how to settle it and, once that is done, how it was. One script charges the keys and writes
//! the reservation, and one gives back or debits and notes that: whoever does not hear of it asks again and
//! is told, and nothing is done twice. [`apart`] is for clusters, where no one script can.

mod apart;
mod note;

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;
use waterclock::store::price_of_held;
use waterclock::{
    Answer, Charge, Cost, Hold, OnExpiry, Policy, Reserved, Settled, Settlement, StoreError,
    Timestamp, Verb,
};
use waterclock_core::store::ReservedUnits;

use crate::decide::{Around, Found, How, Line, Told, bad_reply, bytes, instant, trace};
use crate::held::{answer_held, hold_all};
use crate::keyspace::RecordKey;
use crate::link::Ask;
use crate::script::{LOOK, RESERVE, SETTLE};
use crate::store::{Inner, spread};
use note::{HeldUnits, Note, NotedKey};

/// How much longer than anybody may ask for it the record of a reservation is kept.
const A_LITTLE: Duration = Duration::from_secs(1);
/// How often a reservation is looked at again because somebody else settled it meanwhile.
const ROUNDS: usize = 4;

/// A reservation that is asked for.
struct Asked {
    id: String,
    key: RecordKey,
    lines: Vec<Line>,
    line_of: Vec<usize>,
    /// What it will be, but for when it is over.
    note: Note,
    ttl: Duration,
}

impl Asked {
    /// For how long it is held, for how long its record is kept, and what only nodes read.
    fn arguments(&self) -> Vec<Vec<u8>> {
        let kept_ms = (self.ttl + A_LITTLE).as_millis();
        let (held_us, kept_ms) = (self.ttl.as_micros().to_string(), kept_ms.to_string());
        vec![held_us.into_bytes(), kept_ms.into_bytes(), self.note.about()]
    }

    fn reserved(&self, answers: &[Answer]) -> Reserved {
        let answers = spread(answers, &self.line_of);
        Reserved { id: Some(self.id.clone()), expires_in: self.ttl, answers }
    }

    fn refused(&self, answers: &[Answer]) -> Reserved {
        let answers = spread(answers, &self.line_of);
        Reserved { id: None, expires_in: Duration::ZERO, answers }
    }

    /// What was found of the keys, with the reservation made on it.
    fn hold(&self, found: &mut [Found]) -> (Vec<Answer>, Option<Vec<HeldUnits>>) {
        let states = self.lines.iter().zip(found);
        let mut states: Vec<_> =
            states.map(|(line, found)| (&line.entry.policy, &mut found.held, &line.cost)).collect();
        let (answers, held) = hold_all(&mut states, self.ttl);
        let units = |(granted, held)| HeldUnits { granted, held };
        (answers, held.map(|held| held.into_iter().map(units).collect()))
    }
}

impl Inner {
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        hold: &Hold<'_>,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        let asked = self.asked(hold)?;
        let slot = asked.key.slot;
        let together = self.route.is_one() || asked.lines.iter().all(|l| l.record.slot == slot);
        if !together {
            return self.reserve_apart(at, &asked, by).await;
        }
        let around = Around {
            script: &RESERVE,
            reservation: Some(asked.key.clone()),
            head: asked.arguments(),
            tail: Vec::new(),
        };
        let how = How::Apply(Verb::Check);
        match self.run_around(at, how, &asked.lines, Some(&around), by).await? {
            Told::Known(now, known) => {
                let known = Note::read(&known.ok_or_else(bad_reply)?)?;
                self.reserve_again(at, &asked, &known, now, by).await
            }
            Told::Found(mut found) => Ok(match asked.hold(&mut found) {
                (answers, Some(_)) => asked.reserved(&answers),
                (answers, None) => asked.refused(&answers),
            }),
        }
    }

    fn asked(&self, hold: &Hold<'_>) -> Result<Asked, StoreError> {
        let (lines, line_of) = self.lines(Verb::Check, hold.charges)?;
        let policies: Vec<&Policy> = lines.iter().map(|line| &line.entry.policy).collect();
        let ttl = hold.checked_ttl(&policies)?;
        if hold.on_expiry == OnExpiry::Release {
            return Err(StoreError::BadReservation(
                "in Redis nobody is there to give back what is not settled in time: settle it, or let it \
                 stay charged when its time is over"
                    .to_owned(),
            ));
        }
        // The clock of Redis counts whole microseconds.
        let ttl = Duration::from_micros(u64::try_from(ttl.as_nanos().div_ceil(1_000)).unwrap_or(0));
        let id = hold.id.map_or_else(|| self.ids.next(), str::to_owned);
        let price = |(charge, i): (&Charge<'_>, &usize)| {
            Ok((Verb::Check.price(&lines[*i].entry.policy, Some(&charge.cost))?, *i))
        };
        let charges: Vec<(Cost, usize)> =
            hold.charges.iter().zip(&line_of).map(price).collect::<Result<_, StoreError>>()?;
        let note = Note::pending(&lines, &charges, Timestamp::ZERO);
        Ok(Asked { key: self.keyspace.reservation(&id), id, lines, line_of, note, ttl })
    }

    /// A reservation that is there already, with the numbers of now.
    async fn reserve_again(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        asked: &Asked,
        known: &Note,
        now: Timestamp,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        let id = &asked.id;
        if !known.is_for(&asked.note) {
            let reason =
                format!("reservation `{id}` holds other charges; give this one its own id");
            return Err(StoreError::BadReservation(reason));
        }
        if known.is_pending() {
            return Err(apart::unfinished(id));
        }
        let mut found = self.find(at, Verb::Peek, &asked.lines, by).await?;
        let answer = |((line, found), held): ((&Line, &mut Found), &HeldUnits)| {
            answer_held(&line.entry.policy, &found.held, &line.cost, held.granted)
        };
        let answers: Vec<Answer> =
            asked.lines.iter().zip(&mut found).zip(&known.held).map(answer).collect();
        Ok(Reserved { expires_in: known.expires_at.since(now), ..asked.reserved(&answers) })
    }

    pub(crate) async fn settle_reservation(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        id: &str,
        with: Settlement<'_>,
        by: Instant,
    ) -> Result<Settled, StoreError> {
        let key = self.keyspace.reservation(id);
        let (mut now, mut known) = self.look(at, &key, Vec::new(), by).await?;
        for _ in 0..ROUNDS {
            let unknown = || StoreError::UnknownReservation(id.to_owned());
            let seen = known.ok_or_else(unknown)?;
            let note = Note::read(&seen)?;
            if let Some(settled) = note.settled {
                return Ok(settled);
            }
            if note.is_pending() {
                return Err(apart::unfinished(id));
            }
            let settled = self.settlement(&note, id, with)?;
            let lines = self.settling(&note, &settled)?;
            let after = Note { settled: Some(settled.clone()), ..note }.write();
            let done = self.settle_as(at, &key, (seen, after), &lines, now, by).await?;
            let keys: Vec<Line> = lines.into_iter().map(|(line, _)| line).collect();
            match done {
                Told::Found(_) => {
                    self.denied.forget(&keys);
                    return Ok(settled);
                }
                Told::Known(then, other) => (now, known) = (then, other),
            }
        }
        Err(bad_reply())
    }

    /// Settles it if it is still what it was.
    async fn settle_as(
        self: &Arc<Self>,
        at: Option<Timestamp>,
        key: &RecordKey,
        (seen, after): (Vec<u8>, Vec<u8>),
        lines: &[(Line, ReservedUnits)],
        now: Timestamp,
        by: Instant,
    ) -> Result<Told, StoreError> {
        let together = self.route.is_one() || lines.iter().all(|(l, _)| l.record.slot == key.slot);
        if !together {
            return self.settle_apart(at, key, (seen, after), lines, now, by).await;
        }
        let keys: Vec<Line> = lines.iter().map(|(line, _)| line.clone()).collect();
        let around = Around {
            script: &SETTLE,
            reservation: Some(key.clone()),
            head: vec![seen, after],
            tail: differences(lines),
        };
        self.run_around(at, How::Apply(Verb::Debit), &keys, Some(&around), by).await
    }

    /// What settling it with this comes to.
    fn settlement(
        &self,
        note: &Note,
        id: &str,
        with: Settlement<'_>,
    ) -> Result<Settled, StoreError> {
        let charges = note.charges.len();
        let used = match with {
            Settlement::Cancel => note.charges.iter().map(|(cost, _)| cost.granted(0)).collect(),
            Settlement::Commit(costs) if costs.len() == charges => {
                let price = |(cost, (held, key)): (&Cost, &(Cost, usize))| {
                    let NotedKey { policy, mark, .. } = &note.keys[*key];
                    let entry = self.entry(policy)?;
                    let then = entry.elsewhere().find(|older| older.mark == *mark);
                    let then = then.map_or(&entry.policy, |then| &then.policy);
                    Ok(price_of_held(cost, held, [&entry.policy, then])?)
                };
                costs.iter().zip(&note.charges).map(price).collect::<Result<_, StoreError>>()?
            }
            Settlement::Commit(costs) => {
                return Err(StoreError::BadReservation(format!(
                    "reservation `{id}` holds {charges} charges, but {} costs are committed; give one for each",
                    costs.len()
                )));
            }
        };
        let is_cancelled = matches!(with, Settlement::Cancel);
        Ok(Settled { is_cancelled, held: note.held_by_charge(), used })
    }

    /// The keys that are settled, with the cost that was used of each, and what is held of them under the
    /// policies as they are now.
    fn settling(
        &self,
        note: &Note,
        settled: &Settled,
    ) -> Result<Vec<(Line, ReservedUnits)>, StoreError> {
        let mut lines = Vec::with_capacity(note.keys.len());
        for (i, (key, units)) in note.keys.iter().zip(&note.held).enumerate() {
            let entry = self.entry(&key.policy)?;
            let of_key = note.charges.iter().zip(&settled.used).filter(|((_, key), _)| *key == i);
            let cost = of_key.fold(Cost::from(0), |sum, (_, used)| sum.plus(used));
            let then = entry.elsewhere().find(|older| older.mark == key.mark);
            let held = match then {
                _ if entry.mark == key.mark => units.held.clone(),
                Some(then) => units.held.migrated(&then.policy, &entry.policy),
                // Nobody knows any more what it was held of: it stays charged.
                None => {
                    ReservedUnits::new(units.held.at(), entry.policy.limits().iter().map(|_| None))
                }
            };
            let record = self.keyspace.record_of(entry.mark, &key.tag);
            lines.push((Line { entry, record, cost }, held));
        }
        Ok(lines)
    }

    /// What is known of a reservation, and the instant; `pending` is written if nothing is.
    async fn look(
        &self,
        at: Option<Timestamp>,
        key: &RecordKey,
        pending: Vec<Vec<u8>>,
        by: Instant,
    ) -> Result<(Timestamp, Option<Vec<u8>>), StoreError> {
        let trace = trace(at);
        let (now, net) = trace.as_ref().map_or(("", ""), |trace| (&trace.now_us, trace.ttl_ms));
        let mut args = vec![now.as_bytes().to_vec(), net.as_bytes().to_vec()];
        args.extend(pending);
        let ask = Ask::Call { script: &LOOK, keys: vec![key.clone()], args };
        match &*self.route.ask(key.slot, ask, by).await? {
            [Value::Int(now), known] => Ok((instant(*now)?, bytes(known)?)),
            _ => Err(bad_reply()),
        }
    }
}

/// What the scripts are told about each limit of the keys.
fn differences(lines: &[(Line, ReservedUnits)]) -> Vec<Vec<u8>> {
    let mut args = Vec::new();
    for (line, held) in lines {
        line.entry.shape.write_settling(&mut args, held, line.costs());
    }
    args
}

//! Reservations: charged like a check, and settled by any node.
//!
//! Beside the keys' records there is one per reservation, found by its id. It says how to settle the reservation and,
//! once that is done, how it was settled. One script charges the keys and writes the reservation, and one refunds or
//! debits the difference and writes that: a caller that lost the reply repeats the call, and nothing is done twice.
//! [`in_cluster`] is for slots that no one script can reach.

mod in_cluster;
mod note;

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;
use waterclock::store::{check_reserved_costs, price_of_held};
use waterclock::{
    Answer, BadReservation, Charge, Cost, Hold, OnExpiry, Policy, Reserved, Settled, Settlement,
    StoreError, Timestamp, Verb,
};
use waterclock_core::store::ReservedUnits;

use crate::call::{
    Action, Call, Found, KeyCharge, OtherScript, Reply, Standing, bad_reply, bytes, instant,
    trace_args,
};
use crate::direct::{Direct, spread};
use crate::due::{KEEP, RELEASE};
use crate::keyspace::{DueId, RecordKey};
use crate::link::Request;
use crate::overrides::{OVERRIDE_ROUNDS, changed, is_changed};
use crate::policies::Entry;
use crate::prefix::WrittenBy;
use crate::script::{Kind, LOOK};
use crate::shape::putting;
use crate::slots::some;
use crate::state::{Question, answer_held, hold_all};
#[cfg(feature = "fuzzing")]
pub(crate) use note::rewritten as rewritten_note;
use note::{HeldUnits, Note};

/// How much longer than its time to live the record of a reservation is kept.
const GRACE: Duration = Duration::from_secs(1);
/// How much longer a slot of a cluster remembers what it has settled: a server that stood still may execute late what was
/// sent again meanwhile.
const STANDS_STILL: Duration = Duration::from_secs(60);
/// How often settling is tried again because another caller settled the reservation meanwhile.
const ROUNDS: usize = 4;

/// A reservation to make.
struct Wanted {
    id: String,
    key: RecordKey,
    keys: Vec<KeyCharge>,
    /// The answers about keys that no limit decides about.
    standing: Vec<Option<Answer>>,
    /// Which of the keys each charge is for.
    key_of: Vec<usize>,
    /// Its record, but for when it expires.
    note: Note,
    ttl: Duration,
}

impl Wanted {
    /// For how long it is held, for how long its record is kept, and what only nodes read.
    fn arguments(&self) -> Vec<Vec<u8>> {
        let kept_ms = (self.ttl + GRACE).as_millis();
        let (held_us, kept_ms) = (self.ttl.as_micros().to_string(), kept_ms.to_string());
        vec![held_us.into_bytes(), kept_ms.into_bytes(), self.note.about()]
    }

    /// What becomes of it when it expires, as a script reads it.
    fn on_expiry(&self) -> u8 {
        if self.note.releases { RELEASE } else { KEEP }
    }

    /// The same for some of its keys.
    fn part(&self, which: &[usize]) -> Self {
        let keys = some(&self.keys, which);
        let (id, key, key_of) = (self.id.clone(), self.key.clone(), Vec::new());
        let standing = which.iter().map(|key| self.standing[*key].clone()).collect();
        Self { id, key, keys, standing, key_of, note: self.note.clone(), ttl: self.ttl }
    }

    /// For how long it is held, as a script about policies reads it.
    fn held_us(&self) -> Vec<u8> {
        let micros = u64::try_from(self.ttl.as_micros()).unwrap_or(u64::MAX);
        putting(Vec::new(), micros)
    }

    fn reserved(&self, answers: &[Answer]) -> Reserved {
        let answers = spread(answers, &self.key_of);
        Reserved::held(self.id.clone(), self.ttl, answers)
    }

    fn refused(&self, answers: &[Answer]) -> Reserved {
        let answers = spread(answers, &self.key_of);
        Reserved::refused(answers)
    }

    /// The answers, and what is held, from what was found under the keys.
    fn hold(&self, found: &mut [Found]) -> (Vec<Answer>, Option<Vec<HeldUnits>>) {
        let mut questions: Vec<Question<'_>> = Vec::with_capacity(self.keys.len());
        for (key, found) in self.keys.iter().zip(found) {
            let (policy, cost) = (&key.entry.policy, &key.cost);
            questions.push(Question { policy, state: &mut found.state, cost });
        }
        let (answers, held) = hold_all(&mut questions, self.ttl);
        let all = answers.into_iter().zip(&self.keys).zip(&self.standing);
        let answer = |((answer, key), standing): ((Answer, &KeyCharge), &Option<Answer>)| {
            standing.clone().unwrap_or_else(|| answer.with_applied(key.applied()))
        };
        let answers = all.map(answer).collect();
        let units = |(granted, held)| HeldUnits { granted, held };
        (answers, held.map(|held| held.into_iter().map(units).collect()))
    }
}

impl Direct {
    pub(crate) async fn reserve_by(
        &self,
        at: Option<Timestamp>,
        hold: &Hold<'_>,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        // The same id in every round: what one has begun, the next goes on with.
        let id = hold.id.map_or_else(|| self.ids.next(), str::to_owned);
        let Hold { ttl, charges, on_expiry, .. } = *hold;
        let hold = &Hold { id: Some(&id), ttl, charges, on_expiry };
        for _ in 0..OVERRIDE_ROUNDS {
            match self.reserve_once(at, hold, by).await {
                Err(error) if is_changed(&error) => {}
                done => return done,
            }
        }
        Err(changed())
    }

    async fn reserve_once(
        &self,
        at: Option<Timestamp>,
        hold: &Hold<'_>,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        let (keys, key_of) = self.keys(Verb::Check, hold.charges)?;
        let unlimited = keys.iter().filter(|key| !key.is_limited());
        self.verify_overrides(at, unlimited, by).await?;
        if keys.iter().any(|key| key.standing == Standing::Blocked) {
            let call = Call { action: Action::Apply(Verb::Check), keys: &keys, at, by };
            let answers = Box::pin(self.apply_beside(call, Verb::Check)).await?;
            return Ok(Reserved::refused(spread(&answers, &key_of)));
        }
        let wanted = self.wanted(hold, keys, key_of)?;
        let slot = wanted.key.slot;
        let together = self.route.is_one() || wanted.keys.iter().all(|key| key.record.slot == slot);
        if !together {
            return self.reserve_across_slots(at, wanted, by).await;
        }
        let call = Call { action: Action::Apply(Verb::Check), keys: &wanted.keys, at, by };
        let mut head = wanted.arguments();
        let DueId(due) = DueId::new(&wanted.id, Timestamp::ZERO);
        head[0] = [call.count(), wanted.held_us(), vec![wanted.on_expiry()], due.into()].concat();
        let other = OtherScript {
            kind: Kind::Reserve,
            reservation: Some(wanted.key.clone()),
            changes_due: wanted.note.releases,
            head,
            tail: Vec::new(),
        };
        match self.run_script(call, Some(&other)).await? {
            Reply::Known(now, known) => {
                let known = Note::read(&known.ok_or_else(bad_reply)?)?;
                self.reserve_again(at, &wanted, &known, now, by).await
            }
            Reply::Found(mut found) => Ok(match wanted.hold(&mut found) {
                (answers, Some(_)) => wanted.reserved(&answers),
                (answers, None) => wanted.refused(&answers),
            }),
            Reply::Full(error) => Err(error),
        }
    }

    fn wanted(
        &self,
        hold: &Hold<'_>,
        mut keys: Vec<KeyCharge>,
        key_of: Vec<usize>,
    ) -> Result<Wanted, StoreError> {
        let standing = |key: &KeyCharge| (!key.is_limited()).then(|| key.answer_standing());
        let standing = keys.iter().map(standing).collect();
        // Nothing is held of a key that nothing limits, so that its record has no part in this.
        for key in keys.iter_mut().filter(|key| !key.is_limited()) {
            *key = self.stand_in(key)?;
        }
        let policies: Vec<&Policy> = keys.iter().map(|key| &key.entry.policy).collect();
        let ttl = hold.checked_ttl(&policies)?;
        // The clock of Redis counts whole microseconds.
        let ttl = Duration::from_micros(u64::try_from(ttl.as_nanos().div_ceil(1_000)).unwrap_or(0));
        let id = hold.id.map_or_else(|| self.ids.next(), str::to_owned);
        let price = |(charge, i): (&Charge<'_>, &usize)| {
            Ok((Verb::Check.price(&keys[*i].entry.policy, Some(&charge.cost))?, *i))
        };
        let charges: Vec<(Cost, usize)> =
            hold.charges.iter().zip(&key_of).map(price).collect::<Result<_, StoreError>>()?;
        check_reserved_costs(charges.iter().map(|(cost, _)| cost))?;
        let note = Note::pending(&keys, &charges, hold.on_expiry == OnExpiry::Release);
        Ok(Wanted { key: self.keyspace.reservation(&id), id, keys, standing, key_of, note, ttl })
    }

    /// A reservation that exists already, with the present numbers.
    async fn reserve_again(
        &self,
        at: Option<Timestamp>,
        wanted: &Wanted,
        known: &Note,
        now: Timestamp,
        by: Instant,
    ) -> Result<Reserved, StoreError> {
        let id = &wanted.id;
        if !known.is_for(&wanted.note) {
            return Err(BadReservation::Taken(id.clone()).into());
        }
        if known.is_pending() {
            return Err(in_cluster::unfinished(id));
        }
        let call = Call { action: Action::Apply(Verb::Peek), keys: &wanted.keys, at, by };
        let found = self.find(Verb::Peek, call).await?;
        let answer = |((key, found), held): ((&KeyCharge, &Found), &HeldUnits)| {
            answer_held(&key.entry.policy, &found.state, &key.cost, held.granted)
        };
        let answers: Vec<Answer> =
            wanted.keys.iter().zip(&found).zip(&known.held).map(answer).collect();
        let answers = spread(&answers, &wanted.key_of);
        Ok(Reserved::held(id.clone(), known.expires_at.since(now), answers))
    }

    pub(crate) async fn settle_by(
        &self,
        at: Option<Timestamp>,
        id: &str,
        with: Settlement<'_>,
        by: Instant,
    ) -> Result<Settled, StoreError> {
        for _ in 0..OVERRIDE_ROUNDS {
            match self.settle_once(at, id, with, by).await {
                Err(error) if is_changed(&error) => {}
                done => return done,
            }
        }
        Err(changed())
    }

    async fn settle_once(
        &self,
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
            if note.is_pending() {
                return Err(in_cluster::unfinished(id));
            }
            let entries = self.entries_of(&note, now, by).await?;
            let settled = match &note.settled {
                Some(settled) if !note.is_settling => return Ok(settled.clone()),
                Some(settled) => settled.clone(),
                None => settlement(&note, &entries, id, with)?,
            };
            let (keys, held) = self.settling(&note, &entries, &settled)?;
            let releases = note.releases;
            let after = Note { settled: Some(settled.clone()), is_settling: false, ..note };
            let after = after.write();
            let change = Change { seen, after, keys: &keys, held: &held, releases };
            match self.settle_as(at, (id, &key), change, now, by).await? {
                Reply::Found(_) => {
                    self.denied.remove(&keys);
                    return Ok(settled);
                }
                Reply::Known(then, other) => (now, known) = (then, other),
                Reply::Full(error) => return Err(error),
            }
        }
        Err(bad_reply())
    }

    /// Settles a reservation if its record still is what was seen.
    async fn settle_as(
        &self,
        at: Option<Timestamp>,
        (id, key): (&str, &RecordKey),
        change: Change<'_>,
        now: Timestamp,
        by: Instant,
    ) -> Result<Reply, StoreError> {
        let is_one = self.route.is_one();
        if !is_one && change.keys.iter().any(|other| other.record.slot != key.slot) {
            return self.settle_across_slots(at, (id, key), change, now, by).await;
        }
        let Change { seen, after, keys, held, releases } = change;
        let call = Call { action: Action::Apply(Verb::Debit), keys, at, by };
        let DueId(due) = DueId::new(id, Timestamp::ZERO);
        let other = OtherScript {
            kind: Kind::Settle,
            reservation: Some(key.clone()),
            changes_due: releases,
            head: vec![seen, after, [call.count(), due.into()].concat()],
            tail: differences(keys, held, releases),
        };
        self.run_script(call, Some(&other)).await
    }

    /// The policy of each key of a reservation, and the definition by which it was charged; none if that is gone.
    async fn entries_of(
        &self,
        note: &Note,
        now: Timestamp,
        by: Instant,
    ) -> Result<Vec<(Arc<Entry>, Option<Arc<Entry>>)>, StoreError> {
        let mut entries = Vec::with_capacity(note.keys.len());
        for key in &note.keys {
            let entry = self.entry(&key.policy)?;
            let then = if let Some(written_by) = &key.by {
                self.writer(&entry, written_by, now, by).await?
            } else if entry.tag() == key.definition {
                Some(Arc::clone(&entry))
            } else {
                self.definition(&entry, key.definition, now, by).await?.map(|then| then.entry)
            };
            entries.push((entry, then));
        }
        Ok(entries)
    }

    /// The keys that are settled, with the cost that was used of each, and what is held of them under the
    /// policies as they are now.
    fn settling(
        &self,
        note: &Note,
        entries: &[(Arc<Entry>, Option<Arc<Entry>>)],
        settled: &Settled,
    ) -> Result<(Vec<KeyCharge>, Vec<ReservedUnits>), StoreError> {
        let (mut keys, mut all_held) = (Vec::new(), Vec::new());
        let noted = note.keys.iter().zip(&note.held).zip(entries);
        for (i, ((key, units), (entry, then))) in noted.enumerate() {
            let of_key = note.charges.iter().zip(&settled.used).filter(|((_, key), _)| *key == i);
            let cost = of_key.fold(Cost::from(0), |sum, (_, used)| sum.plus(used));
            let record = self.keyspace.record_of(entry.mark, &key.hash);
            let mut charge = self.key_charge(Arc::clone(entry), record, cost, None)?;
            if let (Some(by @ WrittenBy::Factor(..)), Some(then), None) =
                (&key.by, then, charge.writes_by())
            {
                // As it was charged: what is left of it returns at that pace.
                charge.prefix.extend(by.bytes());
                charge.entry = Arc::clone(then);
            }
            if let (Standing::Unlimited, Some(then)) = (charge.standing, then) {
                // Nothing limits it now: what is held is settled under the limits that it was held by.
                charge.prefix = charge.kept_bytes().unwrap_or_default().to_vec();
                charge.prefix.extend(key.by.iter().flat_map(WrittenBy::bytes));
                charge.entry = Arc::clone(then);
            }
            let policy = &charge.entry.policy;
            let held = match then {
                Some(then) if then.policy == *policy => units.held.clone(),
                Some(then) => units.held.migrated(&then.policy, policy),
                // That definition is gone: it stays charged.
                None => ReservedUnits::new(units.held.at(), policy.limits().iter().map(|_| None)),
            };
            keys.push(charge);
            all_held.push(held);
        }
        Ok((keys, all_held))
    }

    /// The record of a reservation, and the instant; `pending` is written if there is none.
    async fn look(
        &self,
        at: Option<Timestamp>,
        key: &RecordKey,
        pending: Vec<Vec<u8>>,
        by: Instant,
    ) -> Result<(Timestamp, Option<Vec<u8>>), StoreError> {
        let args = [trace_args(at), pending].concat();
        let request = Request::Script { script: &LOOK, keys: vec![key.clone()], args };
        match &*self.route.send(key.slot, request, by).await? {
            [Value::Int(now), known] => Ok((instant(*now)?, bytes(known)?)),
            _ => Err(bad_reply()),
        }
    }
}

/// What a settlement comes to.
fn settlement(
    note: &Note,
    entries: &[(Arc<Entry>, Option<Arc<Entry>>)],
    id: &str,
    with: Settlement<'_>,
) -> Result<Settled, StoreError> {
    let charges = note.charges.len();
    let used = match with {
        Settlement::Cancel => note.charges.iter().map(|(cost, _)| cost.granted(0)).collect(),
        Settlement::Commit(costs) if costs.len() == charges => {
            let price = |(cost, (held, key)): (&Cost, &(Cost, usize))| {
                let (entry, then) = &entries[*key];
                let then = then.as_ref().unwrap_or(entry);
                Ok(price_of_held(cost, held, [&entry.policy, &then.policy])?)
            };
            costs.iter().zip(&note.charges).map(price).collect::<Result<_, StoreError>>()?
        }
        Settlement::Commit(costs) => {
            let (id, costs) = (id.to_owned(), costs.len());
            return Err(BadReservation::Costs { id, charges, costs }.into());
        }
    };
    let is_cancelled = matches!(with, Settlement::Cancel);
    Ok(Settled::new(is_cancelled, note.held_by_charge(), used))
}

/// How to settle a reservation: its record as it was seen and as it becomes, and what is held of its keys.
struct Change<'a> {
    seen: Vec<u8>,
    after: Vec<u8>,
    keys: &'a [KeyCharge],
    held: &'a [ReservedUnits],
    releases: bool,
}

/// The arguments of the scripts about each limit of the keys: as they are held and, if that may have been released by
/// then, as if nothing was.
fn differences<'a>(
    keys: impl IntoIterator<Item = &'a KeyCharge>,
    held: impl IntoIterator<Item = &'a ReservedUnits>,
    releases: bool,
) -> Vec<Vec<u8>> {
    let both = |(key, held): (&KeyCharge, &ReservedUnits)| {
        let settling = |held: &ReservedUnits| key.entry.shape.settling(held, key.costs());
        let unlisted = if releases { settling(&released(held)) } else { settling(held) };
        [settling(held), unlisted]
    };
    keys.into_iter().zip(held).flat_map(both).collect()
}

/// What is left of what is held when it was released: places that are held at once, which end by themselves.
fn released(held: &ReservedUnits) -> ReservedUnits {
    let left = |(units, ends): (u64, Option<Timestamp>)| (ends.map_or(0, |_| units), ends);
    ReservedUnits::new(held.at(), held.parts().map(|part| part.map(left)))
}

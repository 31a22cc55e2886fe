//! Overrides of single keys, which stand before their records, and factors of single calls.
//!
//! A call is made under the override that this node has seen last. The script that runs it makes sure that it is still
//! the one before the record, and otherwise returns that: then the call is made again.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;
use waterclock::store::{Decide as _, retry_together, tier_variant};
use waterclock::{
    Answer, Applied, Cost, Factor, Failure, KeyOverride, Override, OverridePage, StoreError,
    Timestamp, Verb,
};

use crate::call::{
    Action, Call, Found, KeyCharge, Standing, bad_reply, bytes, foreign, instant, trace_args,
};
use crate::direct::Direct;
use crate::due;
use crate::keyspace::{Mark, RecordKey, SLOTS};
use crate::link::Request;
use crate::policies::Entry;
use crate::prefix::{Kept, Parts, Seen, WrittenBy};
use crate::script::{LISTED, OVERRIDDEN, PUT_OVERRIDE, UNLIST};
use crate::slots::always_records;
use crate::state::{KeyState, Question, answer_withheld};

/// How often a call is repeated because the override of a key has changed.
pub(crate) const OVERRIDE_ROUNDS: usize = 32;
/// How often an override is written again because other callers change the key meanwhile.
const KEEP_ROUNDS: usize = 512;
/// How many keys one script call lists or reads at most, where they need not share a slot.
const AT_ONCE: usize = 512;
/// A page of a list ends where so little time is left.
const LIST_RESERVE: Duration = Duration::from_secs(2);
/// A state of which something is due is kept so long.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// The longest text of a key that is kept.
const MAX_KEY: usize = 32 * 1024;
const CHANGED: &str = "the override of this key keeps changing";

/// The override of a key is another than the call assumed; nothing was charged.
pub(crate) fn changed() -> StoreError {
    StoreError::failed(Failure::Overloaded, CHANGED)
}

/// The same error of a call that has begun, so that it must not be repeated.
pub(crate) fn has_begun(error: StoreError) -> StoreError {
    if is_changed(&error) {
        let reason = "the override of this key has changed while it was charged";
        return StoreError::failed(Failure::Overloaded, reason).after_sending();
    }
    error.after_sending()
}

pub(crate) fn is_changed(error: &StoreError) -> bool {
    matches!(error, StoreError::Failed { kind: Failure::Overloaded, reason, .. } if reason == CHANGED)
}

impl KeyCharge {
    /// The limits that decide, where they are not those of the policy that the charge names.
    pub(crate) fn applied(&self) -> Option<Applied> {
        let is_override = self.kept.is_some();
        let applies = is_override || !self.prefix.is_empty();
        applies.then(|| Applied::new(Arc::new(self.entry.policy.clone()), is_override))
    }

    /// The override that is assumed.
    pub(crate) fn kept_bytes(&self) -> Option<&[u8]> {
        self.kept.as_ref().map(|seen| &*seen.kept.bytes)
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.standing == Standing::Limited
    }

    /// By which limits its state is written, where no tag says so.
    pub(crate) fn writes_by(&self) -> Option<WrittenBy> {
        Parts::of(&self.prefix).and_then(|parts| parts.written_by())
    }

    pub(crate) fn answer_standing(&self) -> Answer {
        let (policy, cost) = (&self.entry.policy, &self.cost);
        let answer = match self.standing {
            Standing::Blocked => Answer::blocked(policy, cost),
            Standing::Exempt => Answer::exempt(policy, cost),
            Standing::Limited | Standing::Unlimited => {
                KeyState::fresh(policy, Timestamp::ZERO).answer(policy, Verb::Peek, cost)
            }
        };
        answer.with_applied(self.applied())
    }
}

impl Direct {
    /// A charge under the limits that apply to it: those of the key's override, as this node has last seen it, or those
    /// of the policy by a factor.
    pub(crate) fn key_charge(
        &self,
        entry: Arc<Entry>,
        record: RecordKey,
        cost: Cost,
        factor: Option<Factor>,
    ) -> Result<KeyCharge, StoreError> {
        let kept = self.seen.get(&record.bytes);
        let mut charge = KeyCharge {
            entry,
            record,
            cost,
            prefix: kept.as_ref().map_or_else(Vec::new, |seen| seen.kept.bytes.clone()),
            kept,
            standing: Standing::Limited,
        };
        let mut factor = factor;
        if let Some(seen) = charge.kept.clone() {
            match &seen.kept.rule {
                Override::Block => charge.standing = Standing::Blocked,
                Override::Exempt => charge.standing = Standing::Exempt,
                Override::Limits(_) => {
                    charge.entry = self.own_entry(&charge.entry, &seen)?;
                    factor = None;
                }
                Override::Factor(own) => {
                    let both = factor.map_or(Ok(*own), |of_call| own.times(of_call)).ok();
                    let scales = |by: &Factor| charge.entry.scaled(*by).is_ok();
                    factor = both.filter(scales).or(Some(*own)).filter(|by| !by.is_one());
                }
                Override::Tier(tier) => {
                    let tier = self.entry(&tier_variant(charge.entry.base(), tier)).ok();
                    charge.entry = tier.map_or_else(|| self.entry(charge.entry.base()), Ok)?;
                }
                _ => {}
            }
        }
        if let Some(by) = factor {
            if charge.standing == Standing::Limited {
                charge.prefix.extend(WrittenBy::Factor(charge.entry.tag(), by).bytes());
            }
            charge.entry = Arc::new(charge.entry.scaled(by)?);
        }
        let is_unlimited = charge.entry.policy.limits().is_empty() && !charge.prefix.is_empty();
        if is_unlimited && charge.standing == Standing::Limited {
            charge.standing = Standing::Unlimited;
        }
        Ok(charge)
    }

    /// The policy with the limits of an override.
    fn own_entry(&self, entry: &Entry, seen: &Seen) -> Result<Arc<Entry>, StoreError> {
        let base = self.entry(entry.base())?;
        let mut own = seen.own.lock();
        if let Some((known, of)) = &*own
            && Arc::ptr_eq(of, &base)
        {
            return Ok(Arc::clone(known));
        }
        let policy = seen.kept.rule.policy(&base.policy)?.unwrap_or_else(|| base.policy.clone());
        let made = Arc::new(base.derived(policy)?);
        *own = Some((Arc::clone(&made), base));
        Ok(made)
    }

    /// The policy by which a state was written; none if nothing is known of it any more.
    pub(crate) async fn writer(
        &self,
        entry: &Entry,
        by: &WrittenBy,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Option<Arc<Entry>>, StoreError> {
        match by {
            WrittenBy::Factor(tag, factor) => {
                let of = self.definition(entry, *tag, now, deadline).await?;
                Ok(of.and_then(|of| of.entry.scaled(*factor).ok()).map(Arc::new))
            }
            WrittenBy::Tagged => Ok(None),
            WrittenBy::Limits(limits) => {
                let base = self.entry(entry.base())?;
                // The policy may count other units by now.
                let policy = limits.policy(&base.policy).ok().flatten();
                Ok(policy.and_then(|policy| base.derived(policy).ok()).map(Arc::new))
            }
        }
    }

    /// Compares the override before a record with the one that a call assumed.
    pub(crate) fn compare_override(
        &self,
        key: &KeyCharge,
        found: Option<Kept>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let found = found.filter(|kept| kept.holds_at(now));
        if found.as_ref().map(|kept| &*kept.bytes) == key.kept_bytes() {
            return Ok(());
        }
        self.seen.note(&key.record.bytes, found);
        Err(changed())
    }

    /// Applies a verb to keys of which some are blocked or exempt, so that only the others are charged.
    pub(crate) async fn apply_beside(
        &self,
        call: Call<'_>,
        verb: Verb,
    ) -> Result<Vec<Answer>, StoreError> {
        let Call { keys, at, by, .. } = call;
        if matches!(verb, Verb::Refund | Verb::Reset) {
            // Whatever applies to the key: its state is changed.
            let mut answers = self.decide(call, verb).await?;
            for (key, answer) in keys.iter().zip(&mut answers).filter(|(key, _)| !key.is_limited())
            {
                *answer = key.answer_standing();
            }
            return Ok(answers);
        }
        let is_blocked =
            verb == Verb::Check && keys.iter().any(|key| key.standing == Standing::Blocked);
        // Where some record and some do not, it is done one by one, and once each.
        let verified = keys.iter().filter(|key| is_blocked || !key.is_limited());
        self.verify_overrides(at, verified, by).await?;
        let decided = if is_blocked {
            self.withhold(call).await?
        } else {
            // Keys that nothing limits are part of all or nothing, too.
            let stand_ins = keys.iter().map(|key| self.stand_in(key));
            let stand_ins = stand_ins.collect::<Result<Vec<_>, _>>()?;
            self.decide(Call { keys: &stand_ins, ..call }, verb).await?
        };
        let answer = |(key, decided): (&KeyCharge, Answer)| match key.standing {
            Standing::Limited | Standing::Unlimited => decided.with_applied(key.applied()),
            Standing::Blocked | Standing::Exempt => key.answer_standing(),
        };
        let mut answers: Vec<Answer> = keys.iter().zip(decided).map(answer).collect();
        if verb == Verb::Check {
            retry_together(&mut answers);
        }
        Ok(answers)
    }

    /// A key, or a policy without limits on a record of its own in place of one that no limit decides about.
    pub(crate) fn stand_in(&self, key: &KeyCharge) -> Result<KeyCharge, StoreError> {
        if key.is_limited() {
            return Ok(key.clone());
        }
        Ok(KeyCharge {
            entry: Arc::new(key.entry.scaled(Factor::ZERO)?),
            record: self.keyspace.unlimited(&key.record),
            cost: key.cost.clone(),
            prefix: Vec::new(),
            kept: None,
            standing: Standing::Limited,
        })
    }

    /// Makes sure that keys still have the overrides that are assumed.
    pub(crate) async fn verify_overrides<'a>(
        &self,
        at: Option<Timestamp>,
        keys: impl Iterator<Item = &'a KeyCharge>,
        by: Instant,
    ) -> Result<(), StoreError> {
        for key in keys {
            let (now, found) = self.kept_before(at, std::slice::from_ref(&key.record), by).await?;
            self.compare_override(key, found.into_iter().next().flatten(), now)?;
        }
        Ok(())
    }

    /// The answers for keys that are not charged because another one of the call is blocked. Those that always record do.
    async fn withhold(&self, call: Call<'_>) -> Result<Vec<Answer>, StoreError> {
        let mut states = Vec::with_capacity(call.keys.len());
        for key in call.keys {
            let verb = if always_records(key) { Verb::Check } else { Verb::Peek };
            let found = if key.is_limited() {
                let keys = std::slice::from_ref(key);
                let begun = |error| if states.is_empty() { error } else { has_begun(error) };
                self.run(Call { action: Action::Apply(verb), keys, ..call }).await.map_err(begun)?
            } else {
                Vec::new()
            };
            let state = found.into_iter().next().map(|Found { state, .. }| state);
            states
                .push(state.unwrap_or_else(|| KeyState::fresh(&key.entry.policy, Timestamp::ZERO)));
        }
        let mut questions: Vec<Question<'_>> = Vec::with_capacity(call.keys.len());
        for (key, state) in call.keys.iter().zip(&mut states) {
            let (policy, cost) = (&key.entry.policy, &key.cost);
            questions.push(Question { policy, state, cost });
        }
        let blocked = call.keys.iter().filter(|key| key.standing == Standing::Blocked);
        let blocked = blocked.map(|key| &key.entry.policy).collect::<Vec<_>>();
        Ok(answer_withheld(&mut questions, &blocked))
    }

    /// The overrides before some records of one slot, and the instant.
    async fn kept_before(
        &self,
        at: Option<Timestamp>,
        records: &[RecordKey],
        by: Instant,
    ) -> Result<(Timestamp, Vec<Option<Kept>>), StoreError> {
        let Some(first) = records.first() else { return Ok((Timestamp::ZERO, Vec::new())) };
        let request =
            Request::Script { script: &OVERRIDDEN, keys: records.to_vec(), args: trace_args(at) };
        let values = self.route.send(first.slot, request, by).await?;
        let [Value::Int(now), found @ ..] = &*values else { return Err(bad_reply()) };
        if found.len() != records.len() {
            return Err(bad_reply());
        }
        let read = |found: &Value| {
            let found = bytes(found)?.unwrap_or_default();
            Ok(Parts::of(&found).ok_or_else(foreign)?.kept)
        };
        Ok((instant(*now)?, found.iter().map(read).collect::<Result<_, StoreError>>()?))
    }

    /// A policy that can have overrides, and the record of a key of it.
    fn overridable(&self, policy: &str, key: &[u8]) -> Result<(Arc<Entry>, RecordKey), StoreError> {
        let entry = self.entry(policy)?;
        if entry.base() != policy || entry.is_by_time() {
            return Err(StoreError::UnknownPolicy(policy.to_owned()));
        }
        let record = self.keyspace.record(entry.mark, key);
        Ok((entry, record))
    }

    pub(crate) async fn set_kept(&self, policy: &str, new: &KeyOverride) -> Result<(), StoreError> {
        let (entry, record) = self.overridable(policy, &new.key)?;
        match &new.rule {
            Override::Limits(_) => {
                let own = new.rule.policy(&entry.policy)?;
                own.map(|own| entry.derived(own)).transpose()?;
            }
            Override::Factor(factor) if !factor.is_zero() => _ = entry.scaled(*factor)?,
            Override::Tier(tier) => {
                self.entry(&tier_variant(policy, tier)).map_err(|_| {
                    StoreError::unfit(format!(
                        "policy `{policy}` has no tier `{tier}`; name one of its tiers"
                    ))
                })?;
            }
            _ => {}
        }
        let too_long = || StoreError::unfit("the key or the override is longer than 32 KiB");
        let kept = Kept::new(&self.keyspace, new).filter(|_| new.key.len() <= MAX_KEY);
        let kept = kept.ok_or_else(too_long)?;
        self.replace_kept(&entry, record, &new.key, Some((kept, new.expires_in))).await?;
        Ok(())
    }

    pub(crate) async fn clear_kept(&self, policy: &str, key: &[u8]) -> Result<bool, StoreError> {
        let (entry, record) = self.overridable(policy, key)?;
        self.replace_kept(&entry, record, key, None).await
    }

    /// Puts another override before a record, or none; whether there was one.
    async fn replace_kept(
        &self,
        entry: &Entry,
        record: RecordKey,
        key: &[u8],
        new: Option<(Kept, Option<Duration>)>,
    ) -> Result<bool, StoreError> {
        let by = Instant::now() + crate::direct::PATIENT;
        let keys = vec![record.clone(), self.keyspace.listed(entry.mark, record.slot)];
        let expires_us = new.as_ref().and_then(|(_, expires_in)| *expires_in);
        let expires_us = expires_us.map(|time| time.as_micros().max(1).to_string());
        // Most keys have no record yet, or any more.
        let (mut found, mut now) = (Vec::new(), self.route.expected_now(record.slot));
        for _ in 0..KEEP_ROUNDS {
            let parts = Parts::of(&found).ok_or_else(foreign)?;
            let mut next = new.as_ref().map_or_else(Vec::new, |(kept, _)| kept.bytes.clone());
            let mut lasts = Duration::ZERO;
            if !parts.state.is_empty() {
                let is_own = new.as_ref().is_some_and(|(kept, _)| kept.has_limits());
                let written_by = parts.written_by().or_else(|| is_own.then_some(WrittenBy::Tagged));
                next.extend(written_by.map_or_else(Vec::new, |by| by.bytes()));
                next.extend_from_slice(parts.state);
                lasts = self.state_lasts(entry, &parts, now, by).await?;
            }
            let lasts = match (&new, &expires_us) {
                (Some(_), None) => String::new(),
                _ => lasts.as_millis().max(1).to_string(),
            };
            let args = [
                trace_args(None),
                vec![
                    found.clone(),
                    next,
                    lasts.into_bytes(),
                    self.keyspace.hash(key).to_vec(),
                    vec![if new.is_some() { b'1' } else { b'0' }],
                    expires_us.clone().unwrap_or_default().into_bytes(),
                ],
            ];
            let request =
                Request::Script { script: &PUT_OVERRIDE, keys: keys.clone(), args: args.concat() };
            let values = self.route.send(record.slot, request, by).await?;
            let [Value::Int(then), other] = &*values else { return Err(bad_reply()) };
            now = instant(*then)?;
            match bytes(other)? {
                Some(other) => found = other,
                None => {
                    let was_there = parts.kept.is_some_and(|kept| kept.holds_at(now));
                    self.seen.note(&record.bytes, None);
                    self.denied.remove_record(&record);
                    self.leases.drop_key(entry.policy.name(), key);
                    return Ok(was_there);
                }
            }
        }
        Err(StoreError::failed(Failure::Overloaded, "other callers keep changing this key"))
    }

    /// For how long a state matters.
    async fn state_lasts(
        &self,
        entry: &Entry,
        parts: &Parts<'_>,
        now: Timestamp,
        by: Instant,
    ) -> Result<Duration, StoreError> {
        if due::is_noted(parts.state) {
            return Ok(LONGEST);
        }
        let writer = match parts.written_by() {
            Some(written_by) => self.writer(entry, &written_by, now, by).await?,
            None => {
                let tag = crate::keyspace::Tag::of_record(parts.state).ok_or_else(foreign)?;
                self.definition(entry, tag, now, by).await?.map(|known| known.entry)
            }
        };
        let Some(writer) = writer else { return Ok(Duration::ZERO) };
        let state = KeyState::of_record(&writer.policy, &writer.shape, parts.state, now);
        let state = state.map_err(|_| foreign())?;
        // The clock of this node may be behind.
        Ok(writer.policy.fresh_in(state.view(), now) + Duration::from_secs(60))
    }

    pub(crate) async fn read_kept(
        &self,
        policy: &str,
        key: &[u8],
    ) -> Result<Option<KeyOverride>, StoreError> {
        let (_, record) = self.overridable(policy, key)?;
        let by = Instant::now() + self.deadline;
        let (now, found) = self.kept_before(None, &[record], by).await?;
        let kept = found.into_iter().next().flatten().filter(|kept| kept.holds_at(now));
        Ok(kept.and_then(|kept| kept.shown(&self.keyspace, &self.keyspace.hash(key), now)))
    }

    /// In the order of slots, and of hashes in each. The next page starts behind the last of these.
    pub(crate) async fn list_kept(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        let (entry, _) = self.overridable(policy, b"")?;
        let bad = || StoreError::unfit("`after` is not where a page of overrides ends");
        let after = after.map_or(Ok(None), |after| Place::read(after).map(Some).ok_or_else(bad))?;
        let by = Instant::now() + crate::direct::PATIENT;
        let mut slot = usize::from(after.as_ref().map_or(0, |place| place.slot));
        let (mut page, mut last) = (Vec::new(), None);
        while slot < usize::from(SLOTS) {
            if slot > 0 && Instant::now() + LIST_RESERVE > by {
                let place = Place { slot: u16::try_from(slot).unwrap_or(0), hash: [0; 16] };
                return Ok(OverridePage::new(page, Some(place.to_string())));
            }
            let until = (slot + AT_ONCE).min(usize::from(SLOTS));
            let places = self.listed_in(&entry, slot..until, by).await?;
            let is_next = |place: &Place| after.as_ref().is_none_or(|after| place > after);
            for some in places.into_iter().filter(is_next).collect::<Vec<_>>().chunks(AT_ONCE) {
                for (place, found) in self.show(&entry, some, by).await? {
                    if page.len() == count {
                        return Ok(OverridePage::new(page, last));
                    }
                    last = Some(place.to_string());
                    page.push(found);
                }
            }
            slot = until;
        }
        Ok(OverridePage::new(page, None))
    }

    /// The keys with an override in some slots, in their order.
    async fn listed_in(
        &self,
        entry: &Entry,
        slots: std::ops::Range<usize>,
        by: Instant,
    ) -> Result<Vec<Place>, StoreError> {
        let slots: Vec<u16> = slots.filter_map(|slot| u16::try_from(slot).ok()).collect();
        let mark = entry.mark;
        let mut places = Vec::new();
        if self.route.is_one() {
            places = self.listed_together(mark, slots, by).await?;
        } else {
            // Each slot by itself, many at the same time.
            let mut under_way = JoinSet::new();
            for slot in slots {
                let this = self.clone();
                under_way.spawn(async move { this.listed_together(mark, vec![slot], by).await });
            }
            while let Some(listed) = under_way.join_next().await {
                places.extend(listed.map_err(|_| bad_reply())??);
            }
        }
        places.sort_unstable();
        Ok(places)
    }

    async fn listed_together(
        &self,
        mark: Mark,
        slots: Vec<u16>,
        by: Instant,
    ) -> Result<Vec<Place>, StoreError> {
        let Some(first) = slots.first() else { return Ok(Vec::new()) };
        let keys = slots.iter().map(|slot| self.keyspace.listed(mark, *slot)).collect();
        let request = Request::Script { script: &LISTED, keys, args: trace_args(None) };
        let values = self.route.send(*first, request, by).await?;
        let [Value::Int(_), lists @ ..] = &*values else { return Err(bad_reply()) };
        let mut places = Vec::new();
        for (slot, list) in slots.iter().zip(lists) {
            let Value::Array(hashes) = list else { return Err(bad_reply()) };
            for hash in hashes {
                let hash = bytes(hash)?.and_then(|hash| hash.try_into().ok());
                places.push(Place { slot: *slot, hash: hash.ok_or_else(bad_reply)? });
            }
        }
        Ok(places)
    }

    /// The overrides at some places. A key that has none any more is taken off the list.
    async fn show(
        &self,
        entry: &Entry,
        places: &[Place],
        by: Instant,
    ) -> Result<Vec<(Place, KeyOverride)>, StoreError> {
        let mut shown = Vec::with_capacity(places.len());
        let slot = |place: &Place| if self.route.is_one() { 0 } else { place.slot };
        for together in places.chunk_by(|a, b| slot(a) == slot(b)) {
            let records: Vec<RecordKey> = together
                .iter()
                .map(|place| self.keyspace.record_by(entry.mark, &place.hash))
                .collect();
            let (now, found) = self.kept_before(None, &records, by).await?;
            for ((place, record), kept) in together.iter().zip(records).zip(found) {
                let kept = kept.filter(|kept| kept.holds_at(now));
                match kept.and_then(|kept| kept.shown(&self.keyspace, &place.hash, now)) {
                    Some(found) => shown.push((place.clone(), found)),
                    None => {
                        let keys = vec![record, self.keyspace.listed(entry.mark, place.slot)];
                        let args = [trace_args(None), vec![place.hash.to_vec()]].concat();
                        let request = Request::Script { script: &UNLIST, keys, args };
                        _ = self.route.send(place.slot, request, by).await?;
                    }
                }
            }
        }
        Ok(shown)
    }
}

/// Where an override is listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    slot: u16,
    hash: [u8; 16],
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}{:032x}", self.slot, u128::from_be_bytes(self.hash))
    }
}

impl Place {
    fn read(text: &str) -> Option<Self> {
        let (slot, hash) = text.split_at_checked(4)?;
        let slot = u16::from_str_radix(slot, 16).ok().filter(|slot| *slot < SLOTS)?;
        let hash = u128::from_str_radix(hash, 16).ok().filter(|_| hash.len() == 32)?;
        Some(Self { slot, hash: hash.to_be_bytes() })
    }
}

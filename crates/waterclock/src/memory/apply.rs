//! A check over any charges: judge them all, then record in all or in none.

use std::collections::BTreeMap;
use std::slice;

use waterclock_core::store::Verdict;
use waterclock_core::{Cost, Policy, Timestamp};

use super::{MemoryStore, Shared, unknown};
use crate::clock::Clock;
use crate::store::{Answer, Charge, StoreError, Verb};
use crate::store::{only_answer, retry_together, withhold_unless_all_admit};
use crate::sync::Arc;
use crate::table::{Key, Locked, PolicyRef, Shard, Standing, Table, Variant};

impl<C: Clock> MemoryStore<C> {
    /// Decides about one key and charges it, and answers as [`Store::apply`](crate::Store::apply) does.
    pub fn check_in_full(&self, policy: &str, key: &[u8], cost: u64) -> Result<Answer, StoreError> {
        self.shared.answer_one(Verb::Check, policy, key, cost)
    }

    /// The same, but charges nothing.
    pub fn peek_in_full(&self, policy: &str, key: &[u8], cost: u64) -> Result<Answer, StoreError> {
        self.shared.answer_one(Verb::Peek, policy, key, cost)
    }
}

impl<C: Clock> Shared<C> {
    /// A check or a peek of one key, in full: what `apply` answers, without its lists.
    #[inline]
    fn answer_one(
        &self,
        verb: Verb,
        policy: &str,
        key: &[u8],
        cost: u64,
    ) -> Result<Answer, StoreError> {
        let members = self.members();
        let member = members.get(policy).ok_or_else(|| unknown(policy))?;
        member.takes(cost)?;
        let (key, now, _) = self.find(member, key);
        if verb == Verb::Check
            && let Some(answer) = member.table.check_in_full(key, now, cost)
        {
            return Ok(answer);
        }
        member.table.answer(key, now, &cost.into(), verb)?.ok_or_else(|| unknown(policy))
    }

    /// One charge; a check or a peek in a plain number without lists.
    #[inline]
    pub(super) fn apply_one(&self, verb: Verb, charge: &Charge<'_>) -> Result<Answer, StoreError> {
        match (verb, charge.cost.plain(), charge.factor) {
            (Verb::Check | Verb::Peek, Some(cost), None) => {
                self.answer_one(verb, charge.policy, charge.key, cost)
            }
            _ => only_answer(self.apply(verb, slice::from_ref(charge))?),
        }
    }

    pub(super) fn apply(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        let (lines, line_of) = self.lines(verb, charges)?;
        if matches!(verb, Verb::Check | Verb::Debit | Verb::Report(_)) {
            self.make_room(&lines);
        }
        self.release_before_all(&lines);
        let mut shards = lock_current(&lines, &line_of, charges)?;
        let now = one_instant(&mut shards, self.clock.now());
        for line in &lines {
            match verb {
                // Nothing counts for a key that is blocked or exempt.
                Verb::Debit | Verb::Report(_) if !line.is_limited(&shards, now) => {}
                Verb::Debit => line.locked(&mut shards).debit(line.key, now, &line.cost),
                Verb::Report(outcome) => {
                    line.locked(&mut shards).report(line.key, now, outcome, &line.cost);
                }
                Verb::Refund => line.shard(&mut shards).refund(line.key, now, &line.cost),
                Verb::Reset => line.shard(&mut shards).reset(line.key.fingerprint),
                Verb::Check | Verb::Peek => {}
            }
        }
        if verb == Verb::Check {
            let held_only =
                |line: &&Line| !line.cost.is_zero() && line.policy(&shards, now).reserves_only();
            let limited = lines.iter().filter(|line| line.is_limited(&shards, now));
            if let Some(line) = limited.clone().find(held_only) {
                return Err(StoreError::reserves_only(line.policy(&shards, now).name()));
            }
        }
        let mut verdicts: Vec<Verdict> =
            lines.iter().map(|line| line.judge(&shards, now)).collect();
        if verb == Verb::Check {
            withhold(&lines, &shards, now, &mut verdicts);
            for (line, verdict) in lines.iter().zip(&verdicts) {
                if line.is_limited(&shards, now) {
                    line.locked(&mut shards).record(line.key, now, &line.cost, *verdict);
                }
            }
        }
        let answer = |&i: &usize| lines[i].answer(&mut shards, now, verdicts[i]);
        let mut answers: Vec<Answer> = line_of.iter().map(answer).collect();
        drop(shards);
        if verb == Verb::Check {
            retry_together(&mut answers);
        }
        Ok(answers)
    }

    /// Tries to find places for those keys that are new. Locks shards: the caller holds none.
    pub(super) fn make_room(&self, lines: &[Line]) {
        for Line { table, key, .. } in lines.iter().filter(|line| !line.table.has_room()) {
            table.make_room_for(key.fingerprint, self.clock.now());
        }
    }

    /// The charges with those for the same key summed, and which line each charge became.
    pub(super) fn lines(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
    ) -> Result<(Vec<Line>, Vec<usize>), StoreError> {
        let members = self.members();
        let mut lines: Vec<Line> = Vec::with_capacity(charges.len());
        let mut line_of: Vec<usize> = Vec::with_capacity(charges.len());
        for charge in charges {
            let member = members.get(charge.policy).ok_or_else(|| unknown(charge.policy))?;
            let cost = member.price(verb, &charge.cost)?;
            let fingerprint = self.fingerprint(charge.key);
            let key = Key { factor: charge.factor, ..Key::new(fingerprint, member.variant) };
            if let Some(factor) = charge.factor {
                member.table.check_scale(key, factor)?;
            }
            let same = |line: &Line| {
                line.key.fingerprint == fingerprint && Arc::ptr_eq(&line.table, &member.table)
            };
            let at = lines.iter().position(same).unwrap_or(lines.len());
            match lines.get_mut(at) {
                Some(line) if line.key != key => {
                    let first = line_of.iter().position(|line| *line == at).unwrap_or(0);
                    let first = &charges[first];
                    if first.policy == charge.policy {
                        return Err(StoreError::two_factors(charge.policy));
                    }
                    return Err(StoreError::two_variants(first.policy, charge.policy));
                }
                Some(line) => line.cost = line.cost.plus(&cost),
                None => {
                    let table = Arc::clone(&member.table);
                    lines.push(Line { table, key, cost });
                }
            }
            line_of.push(at);
        }
        Ok((lines, line_of))
    }
}

/// One key of one policy, with the sum of its charges.
#[derive(Clone, Debug)]
pub(super) struct Line {
    table: Arc<Table>,
    pub(super) key: Key,
    pub(super) cost: Cost,
}

/// Where a key's state is, whichever variant it is checked under: its table, and its fingerprint.
pub(super) type Spot = (usize, u64);

/// A shard's name in the one order in which shards are locked.
type ShardId = (usize, usize);
pub(super) type Shards<'a> = BTreeMap<ShardId, Locked<'a>>;

impl Line {
    fn id(&self) -> ShardId {
        (Arc::as_ptr(&self.table).addr(), self.table.shard_of(self.key.fingerprint))
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(super) fn spot(&self) -> Spot {
        (Arc::as_ptr(&self.table).addr(), self.key.fingerprint)
    }

    /// The policy it is asked under, at this moment. One without limits, if the key is exempt.
    pub(super) fn current_policy(&self, now: Timestamp) -> Arc<Policy> {
        self.table.policy_for(self.key, now)
    }

    pub(super) fn is_for_the_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table) && (self.key, &self.cost) == (other.key, &other.cost)
    }

    pub(super) fn answer(
        &self,
        shards: &mut Shards<'_>,
        now: Timestamp,
        verdict: Verdict,
    ) -> Answer {
        let shard = self.shard(shards);
        match shard.standing(self.key, now) {
            Standing::Limited => shard.answer_in_full(self.key, now, &self.cost, verdict),
            standing => shard.answer_standing(standing, self.key, now, &self.cost),
        }
    }

    /// Whether the limits decide, and not an override alone.
    pub(super) fn is_limited(&self, shards: &Shards<'_>, now: Timestamp) -> bool {
        self.locked_in(shards).shard.standing(self.key, now) == Standing::Limited
    }

    pub(super) fn judge(&self, shards: &Shards<'_>, now: Timestamp) -> Verdict {
        let shard = &self.locked_in(shards).shard;
        match shard.standing(self.key, now) {
            Standing::Limited => shard.judge(self.key, now, &self.cost),
            Standing::Blocked => Verdict::refused(),
            Standing::Exempt => Verdict::of_reservation(self.cost.most()),
        }
    }

    pub(super) fn locked<'s, 'a>(&self, shards: &'s mut Shards<'a>) -> &'s mut Locked<'a> {
        shards.get_mut(&self.id()).expect("every line's shard was locked")
    }

    fn locked_in<'s, 'a>(&self, shards: &'s Shards<'a>) -> &'s Locked<'a> {
        shards.get(&self.id()).expect("every line's shard was locked")
    }

    pub(super) fn policy<'s>(&self, shards: &'s Shards<'_>, now: Timestamp) -> PolicyRef<'s> {
        self.locked_in(shards).shard.policy_for(self.key, now)
    }

    pub(super) fn shard<'s>(&self, shards: &'s mut Shards<'_>) -> &'s mut Shard {
        &mut self.locked(shards).shard
    }
}

/// Locks every shard the lines need, once each, in ascending order: two checks never wait for each
/// other.
pub(super) fn lock_all<'a>(lines: impl IntoIterator<Item = &'a Line> + Clone) -> Shards<'a> {
    loop {
        let wanted: BTreeMap<ShardId, &Line> =
            lines.clone().into_iter().map(|line| (line.id(), line)).collect();
        let lock = |(id, line): (ShardId, &'a Line)| Some((id, line.table.lock_number(id.1)?));
        let shards: Option<Shards<'a>> = wanted.into_iter().map(lock).collect();
        // A table may grow before its first shard is locked, which happens twice at most; then it does not.
        if let Some(shards) = shards
            && lines.clone().into_iter().all(|line| shards.contains_key(&line.id()))
        {
            return shards;
        }
    }
}

/// The same. Fails if a variant that a charge names was removed since the lines were made.
pub(super) fn lock_current<'a>(
    lines: &'a [Line],
    line_of: &[usize],
    charges: &[Charge<'_>],
) -> Result<Shards<'a>, StoreError> {
    let mut shards = lock_all(lines);
    let is_removed = |line: &Line| {
        line.key.under != Variant::BASE && !line.shard(&mut shards).has(line.key.under)
    };
    if let Some(at) = lines.iter().position(is_removed) {
        let charge = line_of.iter().position(|line| *line == at).unwrap_or(0);
        return Err(unknown(charges[charge].policy));
    }
    Ok(shards)
}

/// All or nothing: whether each line stands by the others.
pub(super) fn withhold(
    lines: &[Line],
    shards: &Shards<'_>,
    now: Timestamp,
    verdicts: &mut [Verdict],
) {
    if lines.len() > 1 {
        // A blocked key refuses even under a policy in shadow.
        let policy = |line: &Line| {
            let policy = line.policy(shards, now);
            match line.is_limited(shards, now) {
                true => policy,
                false => PolicyRef::Special(Arc::new(Policy::clone(&policy).with_shadow(false))),
            }
        };
        let policies: Vec<PolicyRef<'_>> = lines.iter().map(policy).collect();
        let policies: Vec<&Policy> = policies.iter().map(|policy| &**policy).collect();
        withhold_unless_all_admit(&policies, verdicts);
    }
}

/// One instant for all of them: what the first was charged at is past for the others, too.
pub(super) fn one_instant(shards: &mut Shards<'_>, mut now: Timestamp) -> Timestamp {
    for locked in shards.values_mut() {
        now = locked.shard.latest(now);
    }
    for locked in shards.values_mut() {
        locked.shard.latest(now);
    }
    now
}

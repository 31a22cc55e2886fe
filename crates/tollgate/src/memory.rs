use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};

use tollgate_core::{Policy, Verdict};

use crate::budget::Budget;
use crate::clock::{Clock, MonotonicClock};
use crate::keyed::DEFAULT_MAX_KEYS;
use crate::store::{Answer, Charge, Store, StoreError, Verb};
use crate::sync::{Arc, AtomicUsize, Ordering};
use crate::table::{Locked, Shard, Table};
use crate::together::{retry_together, withhold_unless_all_admit};

/// A [`Store`] in this process: every policy's keys, bounded together.
///
/// The same table as a [`KeyedLimiter`](crate::KeyedLimiter)'s, one per policy.
#[derive(Debug)]
pub struct MemoryStore<C = MonotonicClock> {
    tables: RwLock<HashMap<Box<str>, Arc<Table>>>,
    budget: Arc<Budget>,
    /// The table to sweep a little next when a key found no place.
    sweep: AtomicUsize,
    hasher: ahash::RandomState,
    clock: C,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_KEYS, MonotonicClock::default())
    }
}

impl<C: Clock> MemoryStore<C> {
    /// A store for at most `max_keys` keys of all its policies together.
    pub fn new(max_keys: usize, clock: C) -> Self {
        Self {
            tables: RwLock::default(),
            budget: Arc::new(Budget::new(max_keys.max(1))),
            sweep: AtomicUsize::new(0),
            hasher: ahash::RandomState::new(),
            clock,
        }
    }

    /// How many keys are remembered, those that became fresh since the last sweep included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.budget.taken()
    }

    /// Whether no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops every key that answers as a fresh one would. Happens by itself when room is needed.
    pub fn sweep(&self) {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        tables.values().for_each(|table| table.sweep(self.clock.now()));
    }

    fn put(&self, policy: Policy) {
        let policy = Arc::new(policy);
        let known = {
            let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
            let known = tables.get(policy.name()).cloned();
            if known.is_none() {
                let table = Arc::new(Table::new(&policy, &self.budget));
                tables.insert(policy.name().into(), table);
            }
            known
        };
        // Keys move over shard by shard; nobody else needs to wait for all of them.
        if let Some(table) = known {
            table.set_policy(&policy, self.clock.now());
        }
    }

    fn decide(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        if verb == Verb::Check {
            self.budget.make_room(|| self.sweep_a_shard());
        }
        let (lines, line_of) = self.lines(charges)?;
        let mut shards = lock_all(&lines);
        let mut now = self.clock.now();
        for locked in shards.values_mut() {
            now = locked.shard.latest(now);
        }
        // One instant for all of them: what the first was charged at is past for it, too.
        for locked in shards.values_mut() {
            locked.shard.latest(now);
        }
        for line in &lines {
            match verb {
                Verb::Refund => line.shard(&mut shards).refund(line.fingerprint, now, line.cost),
                Verb::Reset => line.shard(&mut shards).reset(line.fingerprint),
                Verb::Check | Verb::Peek => {}
            }
        }
        let judge = |line: &Line| line.shard(&mut shards).judge(line.fingerprint, now, line.cost);
        let mut verdicts: Vec<Verdict> = lines.iter().map(judge).collect();
        if verb == Verb::Check {
            let policies: Vec<&Policy> = lines.iter().map(|line| line.policy(&shards)).collect();
            withhold_unless_all_admit(&policies, &mut verdicts);
            for (line, verdict) in lines.iter().zip(&verdicts) {
                line.locked(&mut shards).record(line.fingerprint, now, line.cost, *verdict);
            }
        }
        let answer = |&i: &usize| {
            let (line, verdict): (&Line, _) = (&lines[i], verdicts[i]);
            line.shard(&mut shards).answer_in_full(line.fingerprint, now, line.cost, verdict)
        };
        let mut answers: Vec<Answer> = line_of.iter().map(answer).collect();
        drop(shards);
        if verb == Verb::Check {
            retry_together(&mut answers);
        }
        Ok(answers)
    }

    /// All policies share the places: each of them in turn is looked through for some.
    fn sweep_a_shard(&self) {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let next = self.sweep.fetch_add(1, Ordering::Relaxed) % tables.len().max(1);
        if let Some(table) = tables.values().nth(next) {
            table.sweep_one(self.clock.now());
        }
    }

    /// The charges with those for the same key summed, and which line each charge became.
    fn lines(&self, charges: &[Charge<'_>]) -> Result<(Vec<Line>, Vec<usize>), StoreError> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let mut lines: Vec<Line> = Vec::with_capacity(charges.len());
        let mut line_of = Vec::with_capacity(charges.len());
        for charge in charges {
            let table = tables
                .get(charge.policy)
                .ok_or_else(|| StoreError::UnknownPolicy(charge.policy.to_owned()))?;
            let fingerprint = self.hasher.hash_one(charge.key).max(1);
            let same =
                |line: &Line| line.fingerprint == fingerprint && Arc::ptr_eq(&line.table, table);
            let at = lines.iter().position(same).unwrap_or(lines.len());
            match lines.get_mut(at) {
                Some(line) => line.cost = line.cost.saturating_add(charge.cost),
                None => {
                    lines.push(Line { table: Arc::clone(table), fingerprint, cost: charge.cost });
                }
            }
            line_of.push(at);
        }
        Ok((lines, line_of))
    }
}

/// What one key of one policy is asked for.
struct Line {
    table: Arc<Table>,
    fingerprint: u64,
    cost: u64,
}

/// A shard's name in the one order in which shards are locked.
type ShardId = (usize, usize);
type Shards<'a> = BTreeMap<ShardId, Locked<'a>>;

impl Line {
    fn id(&self) -> ShardId {
        (Arc::as_ptr(&self.table).addr(), self.table.shard_of(self.fingerprint))
    }

    fn locked<'s, 'a>(&self, shards: &'s mut Shards<'a>) -> &'s mut Locked<'a> {
        shards.get_mut(&self.id()).expect("every line's shard was locked")
    }

    fn policy<'s>(&self, shards: &'s Shards<'_>) -> &'s Policy {
        shards.get(&self.id()).expect("every line's shard was locked").shard.policy()
    }

    fn shard<'s>(&self, shards: &'s mut Shards<'_>) -> &'s mut Shard {
        &mut self.locked(shards).shard
    }
}

/// Locks every shard the lines need, once each, in ascending order: two checks never wait for each
/// other.
fn lock_all(lines: &[Line]) -> Shards<'_> {
    let wanted: BTreeMap<ShardId, &Line> = lines.iter().map(|line| (line.id(), line)).collect();
    wanted.into_iter().map(|(id, line)| (id, line.table.lock(id.1))).collect()
}

impl<C: Clock> Store for MemoryStore<C> {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.put(policy);
        Ok(())
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.decide(verb, charges)
    }
}

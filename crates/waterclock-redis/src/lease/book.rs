//! What this node holds of its keys, and how it is spent: without a future, an allocation or a cryptographic hash of the key.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ahash::RandomState;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use waterclock::{Clock, Lease, Policy, Timestamp, TscClock};

use super::leased::{Leased, MOST_PARTS, Part};
use crate::call::{KeyCharge, Marks};
use crate::policies::Entry;
use crate::state::KeyState;

/// The most keys that are watched for becoming hot, in all shards together.
const MOST_KEYS: usize = 100_000;
const SHARDS: usize = 64;

/// The keys that this node holds units of, or may soon.
pub(crate) struct Leases {
    hasher: RandomState,
    clock: TscClock,
    shards: Box<[Mutex<Shard>]>,
    /// Whether any key was ever watched: where no policy is leased, a check finds out by one load.
    is_used: AtomicBool,
    /// Counts the changes of policies. Units that were taken before the last one are not spent.
    version: AtomicU64,
    /// How often what ran out is returned, in milliseconds; 0 until a key is watched.
    pub(super) sweep_every_ms: AtomicU64,
}

type Shard = HashMap<KeyId, Box<Leased>, BuildHasherDefault<Fingerprint>>;

/// A fingerprint of a policy's name and a key, seeded by the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyId(u64);

/// Hashes a [`KeyId`] to itself: it is a hash already.
#[derive(Default)]
struct Fingerprint(u64);

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    #[inline]
    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

/// Who takes units of a key from the store: one caller at a time.
pub(super) type Taking = OwnedMutexGuard<()>;

/// A key whose check was not answered from what is held.
pub(super) struct Visit {
    pub(super) id: KeyId,
    /// Whether it was checked before within the time to live.
    pub(super) is_hot: bool,
    pub(super) taking: Arc<tokio::sync::Mutex<()>>,
    /// Units that were held under another definition of its policy.
    pub(super) outdated: Option<(KeyCharge, Vec<Part>)>,
}

/// How many units to take of a key.
pub(super) struct Plan {
    pub(super) key: KeyCharge,
    lease: Lease,
    pub(super) held: u64,
    pub(super) size: u64,
    generation: u64,
}

/// Units that the store has charged.
pub(super) struct Taken {
    pub(super) asked: u64,
    pub(super) filled: u64,
    pub(super) state: KeyState,
    pub(super) marks: Option<Marks>,
    pub(super) sent: Timestamp,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            clock: TscClock::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            is_used: AtomicBool::new(false),
            version: AtomicU64::new(0),
            sweep_every_ms: AtomicU64::new(0),
        }
    }
}

impl Leases {
    #[inline]
    fn id(&self, policy: &str, key: &[u8]) -> KeyId {
        KeyId(self.hasher.hash_one((policy, key)))
    }

    #[inline]
    fn shard(&self, id: KeyId) -> &Mutex<Shard> {
        &self.shards[(id.0 >> 32) as usize % SHARDS]
    }

    #[inline]
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Calls `with` with a key, if it is watched.
    fn with<T>(&self, id: KeyId, with: impl FnOnce(&mut Leased) -> T) -> Option<T> {
        self.shard(id).lock().get_mut(&id).map(|leased| with(leased))
    }

    /// Policies have changed. Called after they have: what was looked up before is looked up again.
    pub(crate) fn note_change(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Answers a check from what is held, or refuses one of a key that is watched; and who should take more, if what is
    /// held is about to be used up.
    #[inline]
    pub(super) fn spend<T>(
        &self,
        (policy, key): (&str, &[u8]),
        cost: u64,
        spend: impl FnOnce(&mut KeyState, &Policy, u64) -> Option<T>,
        refusal: impl FnOnce(&KeyCharge) -> Option<T>,
    ) -> Option<(T, Option<(KeyId, Taking)>)> {
        if !self.is_used.load(Ordering::Relaxed) {
            return None;
        }
        self.spend_by(self.id(policy, key), cost, spend, refusal)
    }

    #[inline]
    pub(super) fn spend_by<T>(
        &self,
        id: KeyId,
        cost: u64,
        spend: impl FnOnce(&mut KeyState, &Policy, u64) -> Option<T>,
        refusal: impl FnOnce(&KeyCharge) -> Option<T>,
    ) -> Option<(T, Option<(KeyId, Taking)>)> {
        let now = self.now();
        let version = self.version.load(Ordering::Acquire);
        let mut shard = self.shard(id).lock();
        let leased = shard.get_mut(&id)?;
        if leased.version != version {
            return None;
        }
        let Some(answer) = leased.spend(cost, now, spend) else {
            let answer = refusal(&leased.key)?;
            leased.seen = now;
            return Some((answer, None));
        };
        leased.seen = now;
        let taking = if leased.is_low() { leased.start_refill() } else { None };
        Some((answer, taking.map(|taking| (id, taking))))
    }

    /// Notes that a key was checked; `None` if it is not to be leased. `current` looks up its policy.
    pub(super) fn visit(
        &self,
        key: &KeyCharge,
        text: &[u8],
        lease: Lease,
        current: impl FnOnce() -> Option<Arc<Entry>>,
    ) -> Option<Visit> {
        // Before the policy is looked up: a change in between is noticed by the next check.
        let version = self.version.load(Ordering::Acquire);
        if !current().is_some_and(|entry| Arc::ptr_eq(&entry, &key.entry)) {
            return None;
        }
        self.is_used.store(true, Ordering::Relaxed);
        let (id, now) = (self.id(key.entry.policy.name(), text), self.now());
        let mut shard = self.shard(id).lock();
        if !shard.contains_key(&id) {
            make_room(&mut shard)?;
            shard.insert(id, Box::new(Leased::new(key, version, now)));
        }
        // Two keys of one fingerprint cannot both be leased.
        let leased = shard.get_mut(&id).filter(|leased| leased.key.record == key.record)?;
        let outdated = leased.renew(key, version);
        let is_new = leased.seen == Timestamp::ZERO;
        let is_hot = !is_new && now.since(leased.seen) < lease.ttl();
        leased.seen = now;
        Some(Visit { id, is_hot, taking: Arc::clone(&leased.taking), outdated })
    }

    /// How many units to take of a key, and those that ran out; `most` tells how many this node may hold. `None` if the key is
    /// not leased any more.
    pub(super) fn plan(
        &self,
        id: KeyId,
        most: impl FnOnce(&Policy, Lease) -> u64,
    ) -> Option<(Plan, Vec<Part>)> {
        let now = self.now();
        self.with(id, |leased| {
            let entry = Arc::clone(&leased.key.entry);
            let lease = entry.serving.lease?;
            leased.adapt(lease, most(&entry.policy, lease), now);
            let expired = leased.take_expired(now);
            let plan = Plan {
                key: leased.key.clone(),
                lease,
                held: leased.held(),
                size: leased.size,
                generation: leased.generation,
            };
            Some((plan, expired))
        })
        .flatten()
    }

    /// Adds units that the store has charged, answers from the key's state, and pays what the answer costs. `None` if they
    /// cannot be used any more.
    pub(super) fn add<T>(
        &self,
        id: KeyId,
        plan: &Plan,
        taken: &Taken,
        answer: impl FnOnce(&mut KeyState) -> (T, u64),
    ) -> Option<T> {
        let now = self.now();
        self.with(id, |leased| {
            if leased.generation != plan.generation
                || !Arc::ptr_eq(&leased.key.entry, &plan.key.entry)
            {
                return None;
            }
            leased.set_expired_aside(now);
            leased.adapt_mark();
            leased.refills_ahead = taken.filled == taken.asked;
            leased.push(taken, taken.sent.after(plan.lease.ttl()));
            let mut state = taken.state.clone();
            state.refund(&plan.key.entry.policy, leased.held());
            let (answer, paid) = answer(&mut state);
            leased.pay(paid);
            leased.mirror = Some((state, now));
            Some(answer)
        })
        .flatten()
    }

    /// The store did not answer: it is not asked ahead.
    pub(super) fn note_failure(&self, id: KeyId) {
        self.with(id, |leased| (leased.refills_ahead, leased.is_refilling) = (false, false));
    }

    /// Nothing is taken after all.
    pub(super) fn end_refill(&self, id: KeyId) {
        self.with(id, |leased| leased.is_refilling = false);
    }

    /// Keeps units that could not be returned, for another try.
    pub(super) fn keep_for_return(&self, id: KeyId, entry: &Arc<Entry>, parts: Vec<Part>) {
        self.with(id, |leased| {
            if Arc::ptr_eq(&leased.key.entry, entry) {
                leased.expired.extend(parts);
                leased.expired.truncate(MOST_PARTS);
            }
        });
    }

    /// Takes out units that ran out, or all of them.
    pub(super) fn take_out(&self, all: bool) -> Vec<(KeyId, KeyCharge, Vec<Part>)> {
        let now = self.now();
        let mut out = Vec::new();
        for shard in &self.shards {
            for (id, leased) in shard.lock().iter_mut() {
                let mut parts = leased.take_expired(now);
                if all {
                    parts.extend(leased.parts.drain(..));
                }
                if !parts.is_empty() {
                    out.push((*id, leased.key.clone(), parts));
                }
            }
        }
        // Where a key is depends on a seed of the process; a history must replay.
        out.sort_by(|(_, a, _), (_, b, _)| a.record.bytes.cmp(&b.record.bytes));
        out
    }

    /// Drops keys that cooled down and that nothing is held of.
    pub(super) fn drop_cold(&self) {
        let now = self.now();
        for shard in &self.shards {
            shard.lock().retain(|_, leased| {
                let lease = leased.key.entry.serving.lease;
                let is_warm =
                    lease.is_some_and(|it| now.since(leased.seen) < it.ttl().saturating_mul(2));
                is_warm || !leased.is_idle()
            });
        }
    }

    /// Drops what is held of a key whose limits are others now. It stays charged, which admits less.
    pub(crate) fn drop_key(&self, policy: &str, key: &[u8]) {
        self.with(self.id(policy, key), |leased| {
            leased.drop_units();
        });
    }

    /// The same for a key that is known to be watched.
    pub(super) fn drop_units(&self, id: KeyId) {
        self.with(id, Leased::drop_units);
    }
}

/// Makes room for a key. One that was seen only once gives way: a flood of keys keeps none out that is asked for again.
fn make_room(shard: &mut Shard) -> Option<()> {
    if shard.len() < MOST_KEYS / SHARDS {
        return Some(());
    }
    // Not all of them: a shard full of hot keys would be searched for every cold one.
    let mut some = shard.iter().take(8);
    let cold = some.find(|(_, leased)| leased.mirror.is_none() && leased.is_idle());
    let id = *cold?.0;
    shard.remove(&id).map(drop)
}

/// Whether units can be given back whenever they were charged: to buckets. Units that were charged to a window are
/// returned to that window, or not at all.
pub(super) fn is_of_buckets(policy: &Policy) -> bool {
    policy.limits().iter().all(|limit| limit.capacity().is_some())
}

/// How often what ran out is returned: twice in the life of a lease, within these bounds.
pub(super) fn sweep_every(lease: Lease) -> Duration {
    (lease.ttl() / 2).clamp(Duration::from_millis(50), Duration::from_secs(1))
}

//! Lease mode: a node debits several units of a hot key in one call and spends them without calling Redis.
//!
//! Debited first, spent later: what N nodes admit beyond a limit's bound is at most what they hold, N·size, and at
//! most what drains while they hold it, rate·ttl. A key is leased from its second check within the time to live on; a
//! cold key is checked in Redis, and so is a cost larger than a lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use waterclock::{Answer, Failure, Lease, Mode, Policy, Source, StoreError, Verb};

use crate::call::{Action, Call, KeyCharge};
use crate::direct::Direct;
use crate::keyspace::RecordKey;
use crate::overrides::is_changed;
use crate::state::KeyState;

/// The most keys that are watched for becoming hot.
const MOST_KEYS: usize = 100_000;
/// How many leases are returned concurrently.
const AT_ONCE: usize = 64;
/// How often leases that ran out are returned: about as often as they do, within these bounds.
const SWEEPS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl Leases {
    /// Drops what is held of a key whose limits are others now. It stays charged, which admits less.
    pub(crate) fn drop_key(&self, record: &RecordKey) {
        self.keys.lock().remove(&record.bytes);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Leases {
    keys: Mutex<HashMap<Vec<u8>, LeasedKey>>,
    is_swept: AtomicBool,
}

type LeasedKey = Arc<tokio::sync::Mutex<Leased>>;

/// What this node holds of one key.
#[derive(Debug)]
struct Leased {
    key: KeyCharge,
    left: u64,
    until: Instant,
    seen: Option<Instant>,
    /// The key as if only what was spent had been charged, and when that was so.
    mirror: Option<(KeyState, Instant)>,
}

impl Leased {
    /// Spends from what is held.
    fn spend(&mut self, cost: u64, now: Instant) -> Option<Answer> {
        if self.left < cost || now >= self.until {
            return None;
        }
        let (state, seen) = self.mirror.as_mut()?;
        state.now = state.now.after(now.duration_since(*seen));
        *seen = now;
        let answer = state.answer(&self.key.entry.policy, Verb::Check, &cost.into());
        if !answer.decision.is_allowed() {
            return None;
        }
        self.left -= cost;
        Some(answer.with_source(Source::Lease))
    }

    fn was_seen_within(&self, time: Duration, now: Instant) -> bool {
        self.seen.is_some_and(|seen| now.duration_since(seen) < time)
    }
}

impl Direct {
    /// A check of a key that may be leased; `None` if Redis has to decide.
    pub(crate) async fn check_leased(
        &self,
        key: &KeyCharge,
        cost: u64,
        lease: Lease,
        by: Instant,
    ) -> Result<Option<Answer>, StoreError> {
        self.start_sweeping(lease);
        let Some(leased) = self.leases.leased(key) else { return Ok(None) };
        let busy =
            || StoreError::failed(Failure::Timeout, "too many callers wait for this key's lease");
        let locked = timeout_at(by, leased.lock()).await;
        let mut leased = locked.map_err(|_| busy().before_charging())?;
        if !Arc::ptr_eq(&leased.key.entry, &key.entry) {
            // The policy has changed: what is held under the old one is returned.
            self.give_back(&mut leased, by).await;
            (leased.key, leased.left, leased.mirror) = (key.clone(), 0, None);
        }
        let now = Instant::now();
        let is_hot = leased.was_seen_within(lease.ttl, now);
        leased.seen = Some(now);
        if let Some(answer) = leased.spend(cost, now) {
            return Ok(Some(answer));
        }
        if let Some(answer) = self.denied.answer(key, now) {
            return Ok(Some(answer));
        }
        // A lease for a check that may be refused would keep many units from other nodes.
        if !is_hot || cost > lease.size {
            return Ok(None);
        }
        self.take_lease(&mut leased, key, cost, lease, by).await.map(Some)
    }

    /// Debits what the check needs and a lease more, as far as there is room.
    async fn take_lease(
        &self,
        leased: &mut Leased,
        key: &KeyCharge,
        cost: u64,
        lease: Lease,
        by: Instant,
    ) -> Result<Answer, StoreError> {
        let now = Instant::now();
        if now >= leased.until {
            self.give_back(leased, by).await;
        }
        let want = cost.saturating_sub(leased.left).saturating_add(lease.size);
        let wanted = KeyCharge { cost: want.into(), ..key.clone() };
        let (mut state, filled) = self.fill_key(&wanted, by).await?;
        let total = leased.left.saturating_add(filled);
        let policy = &key.entry.policy;
        state.refund(policy, total);
        let before = state.clone();
        let answer = state.answer(policy, Verb::Check, &key.cost);
        self.denied.note(key, &before, &answer, now);
        leased.left = if answer.decision.is_allowed() { total - cost } else { total };
        leased.until = now + lease.ttl;
        leased.mirror = Some((state, now));
        leased.key = key.clone();
        Ok(answer)
    }

    /// Charges as much of a plain cost as fits: the state after it, and how much that was.
    pub(crate) async fn fill_key(
        &self,
        key: &KeyCharge,
        by: Instant,
    ) -> Result<(KeyState, u64), StoreError> {
        let (action, keys) = (Action::Fill, std::slice::from_ref(key));
        let mut state = self.run(Call { action, keys, at: None, by }).await?.remove(0).state;
        let partial = key.entry.policy.clone().with_mode(Mode::Partial);
        let partial = partial.expect("every algorithm admits in part");
        let granted = state.answer(&partial, Verb::Check, &key.cost).decision.granted();
        Ok((state, granted))
    }

    /// Gives back all that is held of a key.
    async fn give_back(&self, leased: &mut Leased, by: Instant) {
        let units = std::mem::take(&mut leased.left);
        // In a window they may belong to one that has ended; what was not spent in time is lost.
        if units == 0 || !returns(&leased.key.entry.policy) {
            return;
        }
        let refund = [KeyCharge { cost: units.into(), ..leased.key.clone() }];
        let refunded = self.run(Call::now(Verb::Refund, &refund, by)).await;
        // Under another override they stay charged, which admits less.
        if refunded.is_err_and(|error| !error.may_have_charged() && !is_changed(&error)) {
            // No longer to be spent; returned later.
            (leased.left, leased.until) = (units, Instant::now());
        }
    }

    /// Returns leases that ran out, or all of them.
    pub(crate) async fn return_leases(&self, all: bool) {
        let keys: Vec<LeasedKey> = self.leases.keys.lock().values().cloned().collect();
        let mut running = JoinSet::new();
        for key in keys {
            let Ok(mut leased) = key.try_lock_owned() else { continue };
            if leased.left == 0 || (Instant::now() < leased.until && !all) {
                continue;
            }
            let this = self.clone();
            running.spawn(async move {
                let by = Instant::now() + this.deadline;
                this.give_back(&mut leased, by).await;
            });
            if running.len() >= AT_ONCE {
                running.join_next().await;
            }
        }
        running.join_all().await;
    }

    /// Returns leases that ran out and drops keys that cooled down, for as long as the store lives.
    fn start_sweeping(&self, lease: Lease) {
        let swept = &self.leases.is_swept;
        if swept.load(Ordering::Relaxed) || swept.swap(true, Ordering::Relaxed) {
            return;
        }
        let (weak, (shortest, longest)) = (self.downgrade(), SWEEPS);
        tokio::spawn(async move {
            loop {
                sleep(lease.ttl.clamp(shortest, longest)).await;
                let Some(direct) = Direct::upgrade(&weak) else { return };
                direct.return_leases(false).await;
                direct.leases.drop_cold();
            }
        });
    }
}

impl Leases {
    /// What is known of a key; `None` if too many are known already.
    fn leased(&self, key: &KeyCharge) -> Option<LeasedKey> {
        let mut keys = self.keys.lock();
        if let Some(leased) = keys.get(&key.record.bytes) {
            return Some(Arc::clone(leased));
        }
        if keys.len() >= MOST_KEYS {
            return None;
        }
        let leased =
            Leased { key: key.clone(), left: 0, until: Instant::now(), seen: None, mirror: None };
        let leased = Arc::new(tokio::sync::Mutex::new(leased));
        keys.insert(key.record.bytes.clone(), Arc::clone(&leased));
        Some(leased)
    }

    fn drop_cold(&self) {
        let now = Instant::now();
        let is_wanted = |leased: &Leased| {
            let lease = leased.key.entry.serving.lease;
            leased.left > 0 || lease.is_some_and(|lease| leased.was_seen_within(2 * lease.ttl, now))
        };
        // A locked key is in use.
        self.keys.lock().retain(|_, key| key.try_lock().map_or(true, |leased| is_wanted(&leased)));
    }
}

/// Whether units can be given back whenever they were charged.
fn returns(policy: &Policy) -> bool {
    // Only buckets: units charged to a window that has ended cannot be returned to it.
    policy.limits().iter().all(|limit| limit.capacity().is_some())
}

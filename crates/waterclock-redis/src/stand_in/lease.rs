//! Lease mode: a hot key's units are taken out by the handful and spent without asking.
//!
//! Debited first, spent later: what N nodes admit beyond a limit's bound is at most what they hold,
//! N·size, and at most what drains while they hold it, rate·ttl. A key is leased from its second check
//! within the time to live on; a cold key is asked for like any other, and so is a cost larger than a
//! lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use waterclock::{Algorithm, Answer, Failure, Policy, Source, StoreError, Verb};

use super::{AT_ONCE, may_try_later};
use crate::decide::{Found, How, Line};
use crate::held::Held;
use crate::store::Inner;
use waterclock::Lease;

/// Keys watched for becoming hot.
const MOST_KEYS: usize = 100_000;
/// How often leases that ran out are returned: about as often as they do, within reason.
const SWEEPS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

#[derive(Debug, Default)]
pub(crate) struct Leases {
    keys: Mutex<HashMap<Vec<u8>, Key>>,
    swept: AtomicBool,
}

type Key = Arc<tokio::sync::Mutex<Leased>>;

/// What this node holds of one key.
#[derive(Debug)]
struct Leased {
    line: Line,
    left: u64,
    until: Instant,
    seen: Option<Instant>,
    /// The key as if only what was spent had been charged, and when that was heard.
    mirror: Option<(Held, Instant)>,
}

impl Leased {
    /// Spends from what is held.
    fn spend(&mut self, cost: u64, now: Instant) -> Option<Answer> {
        if self.left < cost || now >= self.until {
            return None;
        }
        let (held, heard) = self.mirror.as_mut()?;
        held.now = held.now.after(now.duration_since(*heard));
        *heard = now;
        let answer = held.answer(&self.line.entry.policy, Verb::Check, &cost.into());
        if !answer.decision.is_allowed() {
            return None;
        }
        self.left -= cost;
        Some(Answer { source: Source::Lease, ..answer })
    }

    fn was_seen_within(&self, time: Duration, now: Instant) -> bool {
        self.seen.is_some_and(|seen| now.duration_since(seen) < time)
    }
}

impl Inner {
    /// A check of a key that may be leased.
    pub(crate) async fn check_leased(
        self: &Arc<Self>,
        line: &Line,
        cost: u64,
        lease: Lease,
        by: Instant,
    ) -> Result<Answer, StoreError> {
        self.leases.sweep_from_now_on(self, lease);
        let Some(key) = self.leases.key(line) else { return self.check(line, by).await };
        let busy = || StoreError::failed(Failure::Timeout, "others wait for this key's lease");
        let mut leased = timeout_at(by, key.lock()).await.map_err(|_| busy())?;
        let now = Instant::now();
        let hot = leased.was_seen_within(lease.ttl, now);
        leased.seen = Some(now);
        if let Some(answer) = leased.spend(cost, now) {
            return Ok(answer);
        }
        if let Some(answer) = self.denied.answer(line, now) {
            return Ok(answer);
        }
        // To take out much for a check that may be refused would keep it from others.
        if !hot || cost > lease.size {
            drop(leased);
            return self.check(line, by).await;
        }
        self.take_out(&mut leased, line, cost, lease, by).await
    }

    /// Takes out what the check needs and a lease more, as far as there is.
    async fn take_out(
        &self,
        leased: &mut Leased,
        line: &Line,
        cost: u64,
        lease: Lease,
        by: Instant,
    ) -> Result<Answer, StoreError> {
        let now = Instant::now();
        if now >= leased.until {
            self.give_back(leased, by).await;
        }
        let want = cost.saturating_sub(leased.left).saturating_add(lease.size);
        let (mut held, filled) = self.fill(&Line { cost: want.into(), ..line.clone() }, by).await?;
        let total = leased.left.saturating_add(filled);
        let policy = &line.entry.policy;
        held.refund(policy, total);
        let found = Found { held: held.clone(), before: None, after: None };
        let answer = held.answer(policy, Verb::Check, &line.cost);
        self.denied.note(line, &found, &answer, now);
        leased.left = if answer.decision.is_allowed() { total - cost } else { total };
        leased.until = now + lease.ttl;
        leased.mirror = Some((held, now));
        leased.line = line.clone();
        Ok(answer)
    }

    /// Gives back all that is held of a key.
    async fn give_back(&self, leased: &mut Leased, by: Instant) {
        let units = std::mem::take(&mut leased.left);
        // In a window they may belong to one that is over; what was not spent in time is lost.
        if units == 0 || !returns(&leased.line.entry.policy) {
            return;
        }
        let refund = Line { cost: units.into(), ..leased.line.clone() };
        let refunded = self.run(None, How::Apply(Verb::Refund), &[refund], by).await;
        if refunded.is_err_and(|error| may_try_later(&error)) {
            // Not to be spent any more, but not forgotten either.
            (leased.left, leased.until) = (units, Instant::now());
        }
    }

    /// Gives back what is held and no longer wanted.
    pub(crate) async fn return_leases(self: &Arc<Self>, all: bool) {
        let keys: Vec<Key> = self.leases.keys.lock().values().cloned().collect();
        let mut under_way = JoinSet::new();
        for key in keys {
            let Ok(mut leased) = key.try_lock_owned() else { continue };
            if leased.left == 0 || (Instant::now() < leased.until && !all) {
                continue;
            }
            let inner = Arc::clone(self);
            under_way.spawn(async move {
                let by = Instant::now() + inner.deadline;
                inner.give_back(&mut leased, by).await;
            });
            if under_way.len() >= AT_ONCE {
                under_way.join_next().await;
            }
        }
        under_way.join_all().await;
    }
}

impl Leases {
    fn key(&self, line: &Line) -> Option<Key> {
        let mut keys = self.keys.lock();
        if let Some(leased) = keys.get(&line.record.bytes) {
            return Some(Arc::clone(leased));
        }
        if keys.len() >= MOST_KEYS {
            return None;
        }
        let leased =
            Leased { line: line.clone(), left: 0, until: Instant::now(), seen: None, mirror: None };
        let leased = Arc::new(tokio::sync::Mutex::new(leased));
        keys.insert(line.record.bytes.clone(), Arc::clone(&leased));
        Some(leased)
    }

    /// Returns leases that ran out and forgets keys that cooled down, for as long as the store lives.
    fn sweep_from_now_on(&self, inner: &Arc<Inner>, lease: Lease) {
        if self.swept.load(Ordering::Relaxed) || self.swept.swap(true, Ordering::Relaxed) {
            return;
        }
        let (inner, (shortest, longest)) = (Arc::downgrade(inner), SWEEPS);
        tokio::spawn(async move {
            loop {
                sleep(lease.ttl.clamp(shortest, longest)).await;
                let Some(inner) = inner.upgrade() else { return };
                inner.return_leases(false).await;
                inner.leases.forget_cold();
            }
        });
    }

    fn forget_cold(&self) {
        let now = Instant::now();
        let is_wanted = |leased: &Leased| {
            let lease = leased.line.entry.serving.lease;
            leased.left > 0 || lease.is_some_and(|lease| leased.was_seen_within(2 * lease.ttl, now))
        };
        // Whoever holds a key wants it.
        self.keys.lock().retain(|_, key| key.try_lock().map_or(true, |leased| is_wanted(&leased)));
    }
}

/// Whether units can be given back whenever they were charged.
fn returns(policy: &Policy) -> bool {
    let bucket =
        |algorithm: &Algorithm| matches!(algorithm, Algorithm::Gcra(_) | Algorithm::LeakyBucket(_));
    policy.limits().iter().all(|limit| bucket(limit.algorithm()))
}

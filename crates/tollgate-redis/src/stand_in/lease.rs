//! Lease mode: a hot key's units are taken out by the handful and spent without asking.
//!
//! Debited first, spent later: what N nodes admit beyond a limit's bound is at most what they hold,
//! N·size, and at most what drains while they hold it, rate·ttl. A key is leased from its second check
//! within the time to live on; a cold key is asked for like any other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tollgate::{Algorithm, Answer, Failure, Mode, Policy, Source, StoreError, Verb};

use crate::decide::{How, Line};
use crate::entry::Lease;
use crate::held::Held;
use crate::store::Inner;

/// Keys watched for becoming hot.
const MOST_KEYS: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct Leases {
    keys: Mutex<HashMap<Vec<u8>, Arc<tokio::sync::Mutex<Leased>>>>,
    swept: AtomicBool,
}

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
        let answer = held.answer(&self.line.entry.policy, Verb::Check, cost);
        if !answer.decision.is_allowed() {
            return None;
        }
        self.left -= cost;
        Some(Answer { source: Source::Lease, ..answer })
    }
}

impl Inner {
    /// A check of a key that may be leased.
    pub(crate) async fn check_leased(
        self: &Arc<Self>,
        line: &Line,
        lease: Lease,
        by: Instant,
    ) -> Result<Answer, StoreError> {
        let Some(leased) = self.leases.key(line) else { return self.check(line, by).await };
        let busy = || StoreError::failed(Failure::Timeout, "others wait for this key's lease");
        let mut leased = timeout_at(by, leased.lock()).await.map_err(|_| busy())?;
        let now = Instant::now();
        if let Some(answer) = leased.spend(line.cost, now) {
            leased.seen = Some(now);
            return Ok(answer);
        }
        let hot = leased.seen.is_some_and(|seen| now.duration_since(seen) < lease.ttl);
        leased.seen = Some(now);
        if !hot {
            return self.check(line, by).await;
        }
        self.leases.sweep_from_now_on(self, lease);
        self.take_out(&mut leased, line, lease, by).await
    }

    /// Takes out what the check needs and a lease more, as far as there is.
    async fn take_out(
        &self,
        leased: &mut Leased,
        line: &Line,
        lease: Lease,
        by: Instant,
    ) -> Result<Answer, StoreError> {
        let now = Instant::now();
        let have = if now < leased.until { leased.left } else { 0 };
        let want = line.cost.saturating_sub(have).saturating_add(lease.size);
        let fill = Line { cost: want, ..line.clone() };
        let mut found = self.run(None, How::Fill, std::slice::from_ref(&fill), by).await?;
        let mut held = found.remove(0).held;
        let policy = &line.entry.policy;
        let filled = held.answer(&filling(policy), Verb::Check, want);
        let total = have.saturating_add(filled.decision.granted());
        held.refund(policy, total);
        let answer = held.answer(policy, Verb::Check, line.cost);
        leased.left = if answer.decision.is_allowed() { total - line.cost } else { total };
        leased.until = now + lease.ttl;
        leased.mirror = Some((held, now));
        leased.line = line.clone();
        Ok(answer)
    }

    /// Gives back what is held and no longer wanted.
    pub(crate) async fn return_leases(&self, all: bool) {
        let keys: Vec<_> = self.leases.keys.lock().values().cloned().collect();
        for key in keys {
            let Ok(mut leased) = key.try_lock() else { continue };
            let now = Instant::now();
            if leased.left == 0 || (now < leased.until && !all) {
                continue;
            }
            let units = std::mem::take(&mut leased.left);
            // In a window they may belong to one that is over; what was not spent in time is lost.
            if returns(&leased.line.entry.policy) {
                let refund = Line { cost: units, ..leased.line.clone() };
                let by = now + self.deadline;
                _ = self.run(None, How::Apply(Verb::Refund), &[refund], by).await;
            }
        }
    }
}

impl Leases {
    fn key(&self, line: &Line) -> Option<Arc<tokio::sync::Mutex<Leased>>> {
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
        if self.swept.swap(true, Ordering::Relaxed) {
            return;
        }
        let inner = Arc::downgrade(inner);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(lease.ttl).await;
                let Some(inner) = inner.upgrade() else { return };
                inner.return_leases(false).await;
                inner.leases.forget_cold(lease);
            }
        });
    }

    fn forget_cold(&self, lease: Lease) {
        let now = Instant::now();
        self.keys.lock().retain(|_, leased| match leased.try_lock() {
            Ok(leased) => {
                leased.left > 0
                    || leased.seen.is_some_and(|seen| now.duration_since(seen) < 2 * lease.ttl)
            }
            Err(_) => true,
        });
    }
}

/// The policy that takes what there is.
fn filling(policy: &Policy) -> Policy {
    policy.clone().mode(Mode::Nary).expect("every algorithm admits in part")
}

/// Whether units can be given back whenever they were charged.
fn returns(policy: &Policy) -> bool {
    let bucket =
        |algorithm: &Algorithm| matches!(algorithm, Algorithm::Gcra(_) | Algorithm::LeakyBucket(_));
    policy.limits().iter().all(|limit| bucket(limit.algorithm()))
}

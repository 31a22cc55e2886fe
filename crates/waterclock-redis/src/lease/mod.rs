//! Lease mode: a node debits several units of a hot key in one call and spends them without calling Redis.
//!
//! Debited first, spent later: what N nodes admit beyond a limit's bound is at most what they hold, N·size, and at
//! most what drains while they hold it, rate·ttl. A key is leased from its second check within the time to live on; a
//! cold key is checked in Redis, and so is a cost larger than a lease.
//!
//! More is taken before all is spent, so that callers rarely wait. What is not spent in time is returned: to a bucket, and
//! to a window that has not ended.

mod book;
mod leased;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) use book::Leases;
use book::{KeyId, Plan, Taken, Taking, Visit, is_of_buckets, sweep_every};
use leased::Part;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use waterclock::{
    Answer, Charge, Decision, Failure, Lease, Mode, Policy, Source, StoreError, Verb,
};

use crate::call::{Action, Call, KeyCharge, Marks};
use crate::direct::Direct;
use crate::keyspace::DueId;
use crate::overrides::is_changed;
use crate::state::KeyState;

/// How many leases are returned concurrently.
const AT_ONCE: usize = 64;

impl Direct {
    /// Answers a check of one key from what this node holds of it, without waiting.
    #[inline]
    pub(crate) fn spend_now(&self, verb: Verb, charge: &Charge<'_>) -> Option<Answer> {
        if verb != Verb::Check {
            return None;
        }
        let spend = |state: &mut KeyState, policy: &Policy, cost| {
            state.spend(policy, cost).map(|answer| answer.with_source(Source::Lease))
        };
        self.spend_or_refuse(charge, spend, |answer| answer)
    }

    /// The same, if only the decision matters.
    #[inline]
    pub(crate) fn spend_and_decide(&self, charge: &Charge<'_>) -> Option<(Decision, Source)> {
        let spend = |state: &mut KeyState, policy: &Policy, cost| {
            state.spend_and_decide(policy, cost).map(|decision| (decision, Source::Lease))
        };
        self.spend_or_refuse(charge, spend, |answer| (answer.decision, answer.source))
    }

    /// Spends by `spend`; where nothing is held, passes a refusal that still holds to `refuse`.
    #[inline]
    fn spend_or_refuse<T>(
        &self,
        charge: &Charge<'_>,
        spend: impl FnOnce(&mut KeyState, &Policy, u64) -> Option<T>,
        refuse: impl FnOnce(Answer) -> T,
    ) -> Option<T> {
        if charge.factor.is_some() {
            return None;
        }
        let cost = charge.cost.plain().filter(|cost| *cost > 0)?;
        let refusal =
            |key: &KeyCharge| self.denied.answer(key, &charge.cost, Instant::now()).map(refuse);
        let (answer, more) =
            self.leases.spend((charge.policy, charge.key), cost, spend, refusal)?;
        if let Some((id, taking)) = more {
            self.refill_soon(id, taking);
        }
        Some(answer)
    }

    /// A check of a key that may be leased, `text` in plain; `None` if Redis has to decide.
    pub(crate) async fn check_leased(
        &self,
        (key, text): (&KeyCharge, &[u8]),
        cost: u64,
        lease: Lease,
        by: Instant,
    ) -> Result<Option<Answer>, StoreError> {
        self.start_sweeping(lease);
        let current = || self.entry(key.entry.policy.name()).ok();
        let visited = self.leases.visit(key, text, lease, current);
        let Some(Visit { id, is_hot, taking, outdated }) = visited else { return Ok(None) };
        if let Some((old, parts)) = outdated {
            self.return_parts(id, &old, parts, by).await;
        }
        let is_leased = is_hot && cost <= self.most(&key.entry.policy, lease);
        if !is_leased {
            // What is held of it is spent all the same.
            return Ok(self.spend_held(id, cost));
        }
        let late =
            || StoreError::failed(Failure::Timeout, "too many callers wait for this key's lease");
        let taking = timeout_at(by, taking.lock_owned()).await;
        let _taking = taking.map_err(|_| late().before_charging())?;
        // Another caller may have taken some, or have been refused.
        if let Some(answer) = self.spend_held(id, cost) {
            return Ok(Some(answer));
        }
        if let Some(answer) = self.denied.answer(key, &key.cost, Instant::now()) {
            return Ok(Some(answer));
        }
        self.take_for(id, key, cost, by).await
    }

    fn spend_held(&self, id: KeyId, cost: u64) -> Option<Answer> {
        let spend = |state: &mut KeyState, policy: &Policy, cost| state.spend(policy, cost);
        let (answer, more) = self.leases.spend_by(id, cost, spend, |_| None)?;
        if let Some((id, taking)) = more {
            drop(taking);
            self.leases.end_refill(id);
        }
        Some(answer.with_source(Source::Lease))
    }

    /// The most units of a key that this node may hold.
    fn most(&self, policy: &Policy, lease: Lease) -> u64 {
        let nodes = self.nodes.alive().unwrap_or(1).max(self.least_nodes);
        lease.most(policy, nodes)
    }

    /// How many units to take of a key, after those that ran out were returned.
    async fn plan(&self, id: KeyId, by: Instant) -> Option<Plan> {
        let most = |policy: &Policy, lease| self.most(policy, lease);
        let (plan, expired) = self.leases.plan(id, most)?;
        self.return_parts(id, &plan.key, expired, by).await;
        Some(plan)
    }

    /// Debits what a check needs and a lease more, as far as there is room.
    async fn take_for(
        &self,
        id: KeyId,
        key: &KeyCharge,
        cost: u64,
        by: Instant,
    ) -> Result<Option<Answer>, StoreError> {
        let Some(plan) = self.plan(id, by).await else { return Ok(None) };
        // The policy was replaced while this caller waited for another one.
        if !Arc::ptr_eq(&plan.key.entry, &key.entry) {
            return Ok(None);
        }
        // Enough for the cost even if what is held is spent meanwhile.
        let asked = cost.saturating_sub(plan.held).saturating_add(plan.size).max(cost);
        let sent = Instant::now();
        let taken = self.take(id, key, asked, by).await?;
        let answer = |state: &mut KeyState| {
            let found = state.clone();
            let answer = state.answer(&key.entry.policy, Verb::Check, &key.cost);
            self.denied.note(key, &found, &answer, sent);
            let paid = if answer.decision.is_allowed() { cost } else { 0 };
            (answer, paid)
        };
        let added = self.leases.add(id, &plan, &taken, answer);
        Ok(Some(added.unwrap_or_else(|| {
            // What is held of the key was dropped meanwhile. These units were debited, so they answer this check; what is left
            // of them stays charged.
            let mut state = taken.state;
            state.refund(&key.entry.policy, taken.filled);
            state.answer(&key.entry.policy, Verb::Check, &key.cost)
        })))
    }

    /// Takes more of a key before it is used up, in the background.
    fn refill_soon(&self, id: KeyId, taking: Taking) {
        // Outside of a runtime, a caller takes more when all is spent.
        let Ok(runtime) = Handle::try_current() else {
            drop(taking);
            self.leases.end_refill(id);
            return;
        };
        let this = self.clone();
        runtime.spawn(async move {
            let _taking = taking;
            if this.refill(id).await.is_none() {
                this.leases.note_failure(id);
            }
        });
    }

    async fn refill(&self, id: KeyId) -> Option<()> {
        let by = Instant::now() + self.deadline;
        let plan = self.plan(id, by).await?;
        // A lease that has become smaller has enough.
        let Some(asked) = plan.size.checked_sub(plan.held).filter(|asked| *asked > 0) else {
            self.leases.end_refill(id);
            return Some(());
        };
        let taken = self.take(id, &plan.key, asked, by).await.ok()?;
        self.leases.add(id, &plan, &taken, |_| ((), 0))
    }

    /// Debits as many units as there is room for.
    async fn take(
        &self,
        id: KeyId,
        key: &KeyCharge,
        units: u64,
        by: Instant,
    ) -> Result<Taken, StoreError> {
        let wanted = KeyCharge { cost: units.into(), ..key.clone() };
        let sent = self.leases.now();
        let action =
            if is_of_buckets(&key.entry.policy) { Action::Fill } else { Action::FillMarked };
        let filled = self.fill(&wanted, action, by).await;
        if filled.as_ref().is_err_and(is_changed) {
            // The key has an override now, which this node did not know of.
            self.leases.drop_units(id);
        }
        let (state, filled, marks) = filled?;
        Ok(Taken { asked: units, filled, state, marks, sent })
    }

    /// Charges as much of a plain cost as fits: the state after it, how much that was, and by which marks it is undone if
    /// the action asks for them.
    pub(crate) async fn fill(
        &self,
        key: &KeyCharge,
        action: Action,
        by: Instant,
    ) -> Result<(KeyState, u64, Option<Marks>), StoreError> {
        let keys = std::slice::from_ref(key);
        let found = self.run(Call { action, keys, at: None, by }).await?.remove(0);
        let mut state = found.state;
        let partial = key.entry.policy.clone().with_mode(Mode::Partial);
        let partial = partial.expect("every algorithm admits in part");
        let granted = state.answer(&partial, Verb::Check, &key.cost).decision.granted();
        Ok((state, granted, found.marks))
    }

    /// Returns units that were not spent: a bucket's all at once, a window's where they were charged. What another definition
    /// has charged to the key since is left alone, and so are units of which it is not known whether they were returned: they
    /// stay charged, which admits less.
    async fn return_parts(&self, id: KeyId, key: &KeyCharge, parts: Vec<Part>, by: Instant) {
        if parts.is_empty() {
            return;
        }
        if is_of_buckets(&key.entry.policy) {
            let units: u64 = parts.iter().map(|part| part.left).sum();
            let refund = [KeyCharge { cost: units.into(), ..key.clone() }];
            let call = Call { action: Action::Return, keys: &refund, at: None, by };
            if self.run_script(call, None).await.is_err_and(|error| is_to_repeat(&error)) {
                self.leases.keep_for_return(id, &key.entry, parts);
            }
            return;
        }
        let mut running = JoinSet::new();
        for part in parts {
            let (this, key) = (self.clone(), key.clone());
            running.spawn(async move { this.return_to_window(id, &key, part, by).await });
        }
        running.join_all().await;
    }

    /// Undoes the charge of units where it was made: in its window, if that has not ended.
    async fn return_to_window(&self, id: KeyId, key: &KeyCharge, part: Part, by: Instant) {
        let marks = part.marks.as_ref().and_then(|marks| marks.of_units(part.left));
        let Some(marks) = marks else { return };
        let call = Call { action: Action::Return, keys: std::slice::from_ref(key), at: None, by };
        // Charges behind it that may be undone move up.
        let undone = self.undo(call, DueId([0; 8]), marks, true).await;
        if undone.is_err_and(|error| is_to_repeat(&error)) {
            self.leases.keep_for_return(id, &key.entry, vec![part]);
        }
    }

    /// Returns leases that ran out, or all of them.
    pub(crate) async fn return_leases(&self, all: bool) {
        let mut running = JoinSet::new();
        for (id, key, parts) in self.leases.take_out(all) {
            let this = self.clone();
            running.spawn(async move {
                let by = Instant::now() + this.deadline;
                this.return_parts(id, &key, parts, by).await;
            });
            if running.len() >= AT_ONCE {
                running.join_next().await;
            }
        }
        running.join_all().await;
    }

    /// Returns leases that ran out and drops keys that cooled down, for as long as the store lives.
    fn start_sweeping(&self, lease: Lease) {
        let every = u64::try_from(sweep_every(lease).as_millis()).unwrap_or(u64::MAX);
        let known = &self.leases.sweep_every_ms;
        let before = known.load(Ordering::Relaxed);
        if before != 0 && before <= every {
            return;
        }
        if known.swap(every, Ordering::Relaxed) != 0 {
            return;
        }
        let weak = self.downgrade();
        tokio::spawn(async move {
            loop {
                let Some(every) = weak.upgrade().map(|inner| {
                    Duration::from_millis(inner.leases.sweep_every_ms.load(Ordering::Relaxed))
                }) else {
                    return;
                };
                sleep(every).await;
                let Some(direct) = Direct::upgrade(&weak) else { return };
                direct.return_leases(false).await;
                direct.leases.drop_cold();
            }
        });
    }
}

/// Whether units that could not be returned certainly were not. Under another override they stay charged.
fn is_to_repeat(error: &StoreError) -> bool {
    !error.may_have_charged() && !is_changed(error)
}

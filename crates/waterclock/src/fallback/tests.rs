//! What [`Fallback`] does while a store fails, and after.

use waterclock_core::{Limit, Outcome};

#[cfg(feature = "tokio")]
use super::reconcile::RECONCILED_AT_ONCE;
use super::*;
use crate::memory::MemoryStore;

/// A store that fails on demand, before or after it charged.
#[derive(Clone, Default)]
struct Flaky {
    store: MemoryStore,
    failing: Arc<parking_lot::Mutex<Option<StoreError>>>,
    calls: Arc<AtomicU64>,
    /// Calls never end while it is set.
    hanging: Arc<AtomicBool>,
    /// How many nodes it has counted; 0 if it does not count.
    alive: Arc<AtomicU64>,
}

impl Flaky {
    fn fail(&self, error: StoreError) {
        *self.failing.lock() = Some(error);
    }

    fn heal(&self) {
        *self.failing.lock() = None;
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    async fn remaining(&self) -> Option<u64> {
        self.store.peek("p", b"k").await.unwrap().remaining()
    }
}

impl Store for Flaky {
    async fn set_policy(&self, policy: Policy) -> Result<(), StoreError> {
        self.store.set_policy(policy).await
    }

    async fn set_variant(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        self.store.set_variant(of, policy, migration).await
    }

    fn nodes_alive(&self) -> Option<u64> {
        Some(self.alive.load(Ordering::Relaxed)).filter(|alive| *alive > 0)
    }

    async fn apply(&self, verb: Verb, charges: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.hanging.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let failing = self.failing.lock().clone();
        match failing {
            Some(error) => Err(error),
            None => self.store.apply(verb, charges).await,
        }
    }
}

fn failed(kind: Failure) -> StoreError {
    StoreError::failed(kind, "on demand")
}

/// Ten units a day, and a store that has them.
async fn scene(on_store_error: OnStoreError) -> (Flaky, Fallback<Flaky>) {
    let flaky = Flaky::default();
    let serving = Serving::new(on_store_error);
    let store = Fallback::builder(flaky.clone()).serving(serving).build().unwrap();
    store.set_policy(Policy::new("p", [Limit::per_day(10)]).unwrap()).await.unwrap();
    (flaky, store)
}

async fn apply(store: &Fallback<Flaky>, verb: Verb, cost: u64) -> Result<Answer, StoreError> {
    let charge = Charge::new("p", b"k", cost);
    Ok(store.apply(verb, &[charge]).await?.remove(0))
}

#[tokio::test]
async fn each_verb_falls_back_as_the_table_says() {
    use OnStoreError::{Allow, Deny, Local};
    let report = Verb::Report(Outcome::Ok);
    for (on_store_error, source) in
        [(Local, Some(Source::Local)), (Allow, Some(Source::Policy)), (Deny, None)]
    {
        let (flaky, store) = scene(on_store_error).await;
        flaky.fail(failed(Failure::OutOfMemory));
        for verb in [Verb::Check, Verb::Peek, Verb::Debit, report] {
            let answer = apply(&store, verb, 1).await;
            assert_eq!(answer.ok().map(|answer| answer.source), source, "{verb:?}");
        }
        for verb in [Verb::Refund, Verb::Reset] {
            let error = apply(&store, verb, 1).await.unwrap_err();
            assert_eq!(error.failure(), Some(Failure::OutOfMemory), "{verb:?}");
        }
        let hold = Hold {
            id: None,
            ttl: None,
            charges: &[Charge::new("p", b"k", 1)],
            on_expiry: crate::OnExpiry::Keep,
        };
        assert!(store.reserve(&hold).await.is_err());
    }
}

#[tokio::test]
async fn the_strictest_policy_of_a_check_decides() {
    let (flaky, store) = scene(OnStoreError::Allow).await;
    for (name, on_store_error) in [("local", OnStoreError::Local), ("deny", OnStoreError::Deny)] {
        let policy = Policy::new(name, [Limit::per_day(10)]).unwrap();
        let serving = Serving::new(on_store_error);
        store.set_policy_as(policy, serving).await.unwrap();
    }
    flaky.fail(failed(Failure::Timeout));
    let source = async |names: &[&str]| {
        let charges: Vec<Charge<'_>> =
            names.iter().map(|name| Charge::new(name, b"k", 1)).collect();
        store.apply(Verb::Check, &charges).await.ok().map(|answers| answers[0].source)
    };
    assert_eq!(source(&["p"]).await, Some(Source::Policy));
    assert_eq!(source(&["p", "local"]).await, Some(Source::Local));
    assert_eq!(source(&["p", "local", "deny"]).await, None);
}

/// The share is one of as many nodes as there are, and not of fewer than was said.
#[tokio::test]
async fn more_nodes_than_was_said_share_a_limit() {
    let flaky = Flaky::default();
    let store = Fallback::builder(flaky.clone()).nodes(2).build().unwrap();
    let policy = |name| Policy::new(name, [Limit::per_day(60).with_name("l")]).unwrap();
    store.set_policy(policy("p")).await.unwrap();
    store.set_variant("p", policy("v"), Migration::Units).await.unwrap();
    flaky.fail(failed(Failure::OutOfMemory));
    let share = async |name: &str, key: &str| store.peek(name, key).await.unwrap().limit().unwrap();
    for (alive, expected) in [(0, 30), (1, 30), (2, 30), (3, 20), (6, 10), (3, 20), (1, 30)] {
        flaky.alive.store(alive, Ordering::Relaxed);
        for name in ["p", "v"] {
            assert_eq!(share(name, "k").await, expected, "{name}, {alive} alive");
        }
    }
    // What was used stays used.
    assert!(store.check_n("p", "k", 15).await.unwrap().is_allowed());
    flaky.alive.store(3, Ordering::Relaxed);
    assert_eq!(store.peek("p", "k").await.unwrap().remaining(), Some(5));
    // A policy that is set again is divided by as many from the start.
    let here = async |name: &str| {
        let answers = store.shared.local.apply(Verb::Peek, &[Charge::new(name, b"k", 1)]).await;
        answers.unwrap()[0].decision.limit().unwrap()
    };
    store.set_policy(policy("p")).await.unwrap();
    store.set_variant("p", policy("v"), Migration::Units).await.unwrap();
    assert_eq!((here("p").await, here("v").await), (20, 20));
    store.adopt_policy(&policy("p")).await.unwrap();
    assert_eq!(here("p").await, 20);
    assert_eq!(share("p", "k").await, 20);
}

/// Ten units a day, and a local share for so long.
async fn scene_for(local_for: Duration) -> (Flaky, Fallback<Flaky>) {
    let flaky = Flaky::default();
    let store = Fallback::builder(flaky.clone()).without_breaker().build().unwrap();
    let serving = Serving::default().with_local_for(Some(local_for));
    let policy = Policy::new("p", [Limit::per_day(10)]).unwrap();
    store.set_policy_as(policy, serving).await.unwrap();
    (flaky, store)
}

#[tokio::test]
async fn the_local_share_ends_with_its_time() {
    let (flaky, store) = scene_for(Duration::from_millis(300)).await;
    flaky.fail(failed(Failure::Timeout));
    let start = store.shared.clock.now();
    let mut admitted = 0;
    let refused = loop {
        match apply(&store, Verb::Check, 1).await {
            Ok(answer) => admitted += answer.decision.granted(),
            Err(error) => break error,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(refused.failure(), Some(Failure::Timeout));
    assert!(store.shared.clock.now().since(start) >= Duration::from_millis(300));
    assert!((1..=10).contains(&admitted), "{admitted}");
    // A store that answers now and then grants no second share: neither after a success, nor by a reload.
    flaky.heal();
    assert_eq!(apply(&store, Verb::Check, 1).await.unwrap().source, Source::Authoritative);
    let policy = Policy::new("p", [Limit::per_day(10)]).unwrap();
    let serving = Serving::default().with_local_for(Some(Duration::from_millis(300)));
    store.set_policy_as(policy, serving).await.unwrap();
    for kind in [Failure::Timeout, Failure::Foreign] {
        flaky.fail(failed(kind));
        for verb in [Verb::Check, Verb::Peek, Verb::Debit] {
            assert!(apply(&store, verb, 1).await.is_err(), "{kind:?}, {verb:?}");
        }
    }
}

/// A key that is not ours, or a store that is full, does not use up the time for which a node may be without the store.
#[tokio::test]
async fn only_a_store_that_does_not_answer_is_an_outage() {
    let begins = async |verb, kind| {
        let (flaky, store) = scene_for(Duration::from_secs(3_600)).await;
        flaky.fail(failed(kind));
        _ = apply(&store, verb, 1).await;
        store.shared.outage.lasts()
    };
    for kind in Failure::ALL {
        let expected = kind.trips_breaker() || kind == Failure::Open;
        assert_eq!(begins(Verb::Check, kind).await, expected, "{kind:?}");
    }
    assert!(begins(Verb::Reset, Failure::Timeout).await);
    assert!(!begins(Verb::Reset, Failure::Auth).await);
    let (flaky, store) = scene_for(Duration::ZERO).await;
    flaky.fail(failed(Failure::Foreign));
    assert_eq!(apply(&store, Verb::Check, 1).await.unwrap().source, Source::Local);
}

#[tokio::test]
async fn the_shortest_share_of_a_check_decides() {
    let (flaky, store) = scene_for(Duration::ZERO).await;
    store.set_policy(Policy::new("longer", [Limit::per_day(10)]).unwrap()).await.unwrap();
    flaky.fail(failed(Failure::Timeout));
    let both = [Charge::new("longer", b"k", 1), Charge::new("p", b"k", 1)];
    assert!(store.apply(Verb::Check, &both).await.is_err());
    let answers = store.apply(Verb::Check, &both[..1]).await.unwrap();
    assert_eq!(answers[0].decision.remaining(), Some(9), "nothing was charged before");
}

/// Which failures certainly charged nothing: only their debits are charged to the store later.
#[tokio::test]
async fn debits_reach_the_store_later_if_they_certainly_had_not() {
    use Failure::{
        Auth, BadReply, Foreign, Loading, Open, OutOfMemory, Overloaded, ReadOnly, Timeout,
        Unreachable, Version,
    };
    let certain = [Open, Overloaded, Unreachable, Loading, ReadOnly, OutOfMemory, Auth];
    let uncertain = [Timeout, BadReply, Foreign, Version];
    let cases = certain.map(|kind| (failed(kind), 6)).into_iter();
    let cases = cases.chain(uncertain.map(|kind| (failed(kind), 10)));
    for (error, left) in cases.chain([(failed(Unreachable).after_sending(), 10)]) {
        let (flaky, store) = scene(OnStoreError::Local).await;
        flaky.fail(error.clone());
        let answer = apply(&store, Verb::Debit, 4).await.unwrap();
        assert_eq!((answer.source, answer.decision.remaining()), (Source::Local, Some(6)));
        flaky.heal();
        store.shared.breaker.as_ref().unwrap().close();
        store.reconcile().await;
        assert_eq!(flaky.remaining().await, Some(left), "{error:?}");
    }
}

#[tokio::test]
async fn what_was_admitted_locally_is_charged_afterwards() {
    let (flaky, store) = scene(OnStoreError::Local).await;
    apply(&store, Verb::Check, 2).await.unwrap();
    flaky.fail(failed(Failure::OutOfMemory));
    assert!(apply(&store, Verb::Check, 3).await.unwrap().decision.is_allowed());
    // Repeated where it certainly charged nothing, and not charged again otherwise.
    store.reconcile().await;
    flaky.heal();
    store.reconcile().await;
    assert_eq!(flaky.remaining().await, Some(5));
    store.reconcile().await;
    assert_eq!(flaky.remaining().await, Some(5));
    assert!(!store.shared.local.is_unreconciled());
}

#[tokio::test]
async fn the_store_is_charged_as_far_as_it_has_room() {
    let (flaky, store) = scene(OnStoreError::Local).await;
    apply(&store, Verb::Check, 8).await.unwrap();
    flaky.fail(failed(Failure::Loading));
    assert_eq!(apply(&store, Verb::Check, 5).await.unwrap().decision.granted(), 5);
    flaky.heal();
    store.reconcile().await;
    assert_eq!(flaky.remaining().await, Some(0));
    // What it had no room for stays used here: the next outage is worth less than a share.
    flaky.fail(failed(Failure::Loading));
    assert_eq!(apply(&store, Verb::Peek, 1).await.unwrap().decision.remaining(), Some(7));
}

#[tokio::test]
async fn the_breaker_stops_calls_and_counts_as_the_table_says() {
    use Failure::{
        Auth, BadReply, Foreign, Loading, Open, OutOfMemory, Overloaded, ReadOnly, Timeout,
        Unreachable, Version,
    };
    let lost = failed(Unreachable).after_sending();
    let denied = StoreError::Denied { kind: Timeout, reason: "on demand".to_owned() };
    let opens_after = |kind| (failed(kind), 5);
    let never = |kind| (failed(kind), 20);
    let mut cases = vec![(failed(Unreachable), 1), (lost, 5), (denied, 20)];
    cases.extend([Timeout, BadReply, Loading, ReadOnly, Auth, Version].map(opens_after));
    cases.extend([OutOfMemory, Foreign, Open, Overloaded].map(never));
    for (error, calls) in cases {
        let flaky = Flaky::default();
        let builder = Fallback::builder(flaky.clone()).silence(Duration::from_secs(3_600));
        let store = builder.build().unwrap();
        store.set_policy(Policy::new("p", [Limit::per_day(10)]).unwrap()).await.unwrap();
        flaky.fail(error.clone());
        let mut made = 0;
        while !store.is_degraded() && made < 20 {
            _ = apply(&store, Verb::Check, 1).await;
            made += 1;
        }
        assert_eq!((made, flaky.calls()), (calls, calls), "{error:?}");
    }
}

#[tokio::test]
async fn an_open_breaker_lets_a_trial_through_and_closes() {
    let (flaky, store) = scene(OnStoreError::Local).await;
    flaky.fail(failed(Failure::Unreachable));
    apply(&store, Verb::Check, 1).await.unwrap();
    assert!(store.is_degraded());
    let calls = flaky.calls();
    apply(&store, Verb::Check, 1).await.unwrap();
    assert_eq!(flaky.calls(), calls, "no call before the pause is over");
    flaky.heal();
    tokio::time::sleep(Duration::from_millis(110)).await;
    assert_eq!(apply(&store, Verb::Check, 1).await.unwrap().source, Source::Authoritative);
    assert!(!store.is_degraded());
    let failures: u64 = store.failures().iter().map(|(_, count)| count).sum();
    assert_eq!(failures, 2);
}

/// A client that may check need not be one that may reset.
#[tokio::test]
async fn a_forbidden_reset_does_not_open_the_breaker() {
    let (flaky, store) = scene(OnStoreError::Local).await;
    flaky.fail(failed(Failure::Auth));
    for _ in 0..20 {
        assert!(apply(&store, Verb::Reset, 1).await.is_err());
    }
    assert!(!store.is_degraded());
}

#[tokio::test]
async fn a_server_that_denies_is_believed() {
    for on_store_error in OnStoreError::ALL {
        let (flaky, store) = scene(on_store_error).await;
        let reason = "its own store failed".to_owned();
        flaky.fail(StoreError::Denied { kind: Failure::OutOfMemory, reason });
        let error = apply(&store, Verb::Check, 1).await.unwrap_err();
        assert_eq!(error.failure(), Some(Failure::OutOfMemory));
    }
}

/// Errors of the call itself are no failures of the store.
#[tokio::test]
async fn an_unknown_policy_stays_an_error() {
    let (_, store) = scene(OnStoreError::Local).await;
    let charge = Charge::new("q", b"k", 1);
    let error = store.apply(Verb::Check, &[charge]).await.unwrap_err();
    assert_eq!(error, StoreError::UnknownPolicy("q".to_owned()));
}

#[tokio::test]
async fn a_policy_that_is_adopted_again_is_served_as_it_was_set() {
    let (flaky, store) = scene(OnStoreError::Local).await;
    let policy = || Policy::new("p", [Limit::per_day(10)]).unwrap();
    let strict = Serving::new(OnStoreError::Deny);
    store.set_policy_as(policy(), strict).await.unwrap();
    store.adopt_policy(&policy()).await.unwrap();
    flaky.fail(failed(Failure::Timeout));
    assert!(apply(&store, Verb::Check, 1).await.is_err());
}

#[tokio::test]
async fn reconciling_in_vain_counts_no_failures() {
    let (flaky, store) = scene(OnStoreError::Local).await;
    let counted = || store.failures().iter().map(|(_, count)| count).sum::<u64>();
    flaky.fail(failed(Failure::Loading));
    apply(&store, Verb::Check, 1).await.unwrap();
    assert_eq!(counted(), 1);
    for _ in 0..10 {
        store.reconcile().await;
    }
    assert!(store.is_degraded(), "the breaker knows");
    assert_eq!(counted(), 1);
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn one_task_reconciles_at_a_time() {
    let (flaky, store) = scene(OnStoreError::Local).await;
    flaky.fail(failed(Failure::Loading));
    apply(&store, Verb::Check, 1).await.unwrap();
    flaky.heal();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..10 {
        apply(&store, Verb::Peek, 1).await.unwrap();
    }
    assert_eq!(tasks() - before, 1);
    while store.shared.is_reconciling.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    assert_eq!(flaky.remaining().await, Some(9));
}

/// A store that finds a call wrong is a store that answers.
#[tokio::test]
async fn a_trial_that_is_answered_with_an_error_of_the_call_closes_the_breaker() {
    let wrong = || StoreError::unfit("the key is too long");
    for (error, closes) in
        [(wrong(), true), (failed(Failure::Auth), false), (failed(Failure::Overloaded), false)]
    {
        let (flaky, store) = scene(OnStoreError::Local).await;
        flaky.fail(failed(Failure::Unreachable));
        apply(&store, Verb::Check, 1).await.unwrap();
        tokio::time::sleep(Duration::from_millis(110)).await;
        flaky.fail(error.clone());
        _ = apply(&store, Verb::Check, 1).await;
        assert_eq!(flaky.calls(), 2);
        assert_eq!(!store.is_degraded(), closes, "{error:?}");
    }
}

#[tokio::test]
async fn no_charges_are_no_trial() {
    let (flaky, store) = scene(OnStoreError::Local).await;
    flaky.fail(failed(Failure::Unreachable));
    apply(&store, Verb::Check, 1).await.unwrap();
    flaky.heal();
    tokio::time::sleep(Duration::from_millis(110)).await;
    assert_eq!(store.apply(Verb::Check, &[]).await, Ok(Vec::new()));
    assert_eq!(store.apply_within(Duration::MAX, Verb::Check, &[]).await, Ok(Vec::new()));
    assert!(store.is_degraded());
    assert_eq!(flaky.calls(), 1);
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn what_a_dropped_reconciliation_did_not_try_is_charged_another_time() {
    let (flaky, store) = scene(OnStoreError::Local).await;
    flaky.fail(failed(Failure::OutOfMemory));
    let keys: Vec<[u8; 4]> = (0..100_u32).map(u32::to_be_bytes).collect();
    for key in &keys {
        assert!(store.check("p", key).await.unwrap().is_allowed());
    }
    flaky.heal();
    let before = flaky.calls();
    flaky.hanging.store(true, Ordering::Relaxed);
    let dropped = tokio::time::timeout(Duration::from_millis(50), store.reconcile()).await;
    assert!(dropped.is_err());
    flaky.hanging.store(false, Ordering::Relaxed);
    let tried = usize::try_from(flaky.calls() - before).unwrap();
    assert_eq!(tried, RECONCILED_AT_ONCE);
    // What was dropped with it is put back when its task ends.
    tokio::task::yield_now().await;
    store.reconcile().await;
    let mut charged = 0;
    for key in &keys {
        charged += usize::from(flaky.store.peek("p", key).await.unwrap().remaining() == Some(9));
    }
    assert_eq!(charged, keys.len() - tried);
}

/// Notes which of its methods are called. What it returns is not what the defaults return.
#[derive(Clone, Default)]
struct Recorder(Arc<parking_lot::Mutex<Vec<&'static str>>>);

impl Recorder {
    fn note(&self, method: &'static str) {
        self.0.lock().push(method);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Store for Recorder {
    async fn set_policy(&self, _: Policy) -> Result<(), StoreError> {
        self.note("set_policy");
        Ok(())
    }

    async fn set_policy_as(&self, _: Policy, _: Serving) -> Result<(), StoreError> {
        self.note("set_policy_as");
        Ok(())
    }

    async fn set_variant(&self, _: &str, _: Policy, _: Migration) -> Result<(), StoreError> {
        self.note("set_variant");
        Ok(())
    }

    async fn remove_policy(&self, _: &str) -> Result<(), StoreError> {
        self.note("remove_policy");
        Ok(())
    }

    async fn apply(&self, _: Verb, _: &[Charge<'_>]) -> Result<Vec<Answer>, StoreError> {
        self.note("apply");
        Ok(Vec::new())
    }

    async fn apply_within(
        &self,
        _: Duration,
        _: Verb,
        _: &[Charge<'_>],
    ) -> Result<Vec<Answer>, StoreError> {
        self.note("apply_within");
        Ok(Vec::new())
    }

    async fn reserve(&self, _: &Hold<'_>) -> Result<Reserved, StoreError> {
        self.note("reserve");
        Err(failed(Failure::OutOfMemory))
    }

    async fn settle(&self, _: &str, _: Settlement<'_>) -> Result<Settled, StoreError> {
        self.note("settle");
        Err(failed(Failure::OutOfMemory))
    }

    async fn fill(&self, _: &Policy, _: &Charge<'_>) -> Result<Cost, StoreError> {
        self.note("fill");
        Ok(Cost::from(7))
    }

    async fn probe(&self) -> Result<Vec<String>, StoreError> {
        self.note("probe");
        Ok(vec!["probed".to_owned()])
    }

    fn is_degraded(&self) -> bool {
        true
    }

    fn nodes_alive(&self) -> Option<u64> {
        Some(3)
    }

    async fn close(&self) {
        self.note("close");
    }
}

async fn call_every_method(store: &impl Store, recorder: &Recorder) {
    let policy = |name| Policy::new(name, [Limit::per_day(10).with_name("l")]).unwrap();
    let (charge, long) = (Charge::new("p", b"k", 1), Duration::from_secs(60));
    let charges = std::slice::from_ref(&charge);
    store.set_policy_as(policy("p"), Serving::default()).await.unwrap();
    assert_eq!(recorder.take(), ["set_policy_as"]);
    store.set_variant("p", policy("q"), Migration::Units).await.unwrap();
    assert_eq!(recorder.take(), ["set_variant"]);
    store.apply(Verb::Check, charges).await.unwrap();
    assert_eq!(recorder.take(), ["apply"]);
    store.apply_within(long, Verb::Check, charges).await.unwrap();
    assert_eq!(recorder.take(), ["apply_within"]);
    let on_expiry = crate::OnExpiry::Keep;
    assert!(store.reserve(&Hold { id: None, ttl: None, charges, on_expiry }).await.is_err());
    assert_eq!(recorder.take(), ["reserve"]);
    assert!(store.settle("id", Settlement::Cancel).await.is_err());
    assert_eq!(recorder.take(), ["settle"]);
    assert_eq!(store.fill(&policy("p"), &charge).await, Ok(Cost::from(7)));
    assert_eq!(recorder.take(), ["fill"]);
    assert_eq!(store.probe().await, Ok(vec!["probed".to_owned()]));
    assert_eq!(recorder.take(), ["probe"]);
    store.remove_policy("p").await.unwrap();
    assert_eq!(recorder.take(), ["remove_policy"]);
    store.close().await;
    assert_eq!(recorder.take(), ["close"]);
    assert!(store.is_degraded());
    assert_eq!(store.nodes_alive(), Some(3));
}

#[tokio::test]
async fn every_method_reaches_the_store_inside() {
    let recorder = Recorder::default();
    call_every_method(&crate::DynStore::new(recorder.clone()), &recorder).await;
    let fallback = Fallback::builder(recorder.clone()).build().unwrap();
    call_every_method(&fallback, &recorder).await;
    assert!(fallback.failures().contains(&(Failure::OutOfMemory, 2)));
    let erased = crate::DynStore::new(fallback);
    call_every_method(&erased, &recorder).await;
    assert!(erased.failures().contains(&(Failure::OutOfMemory, 4)));
}

//! Policies that count several units: each limit is asked for its own, and all admit or none.

use std::time::Duration;

use waterclock::store::now_or_never;
use waterclock::{
    Answer, Charge, Cost, FixedWindow, Hold, Limit, ManualClock, MemoryStore, Migration, Mode,
    OnExpiry, Policy, PolicyError, Settlement, Store, StoreError, Verb,
};

fn charge(policy: &str, cost: Cost) -> Charge<'_> {
    Charge::new(policy, b"alice", cost)
}

async fn ask(store: &impl Store, verb: Verb, charge: Charge<'_>) -> Answer {
    store.apply(verb, &[charge]).await.unwrap().remove(0)
}

/// Requests and tokens per hour, without anything coming back while a test runs.
async fn llm() -> MemoryStore<ManualClock> {
    let store = MemoryStore::new(16, ManualClock::default());
    let hour = Duration::from_secs(3_600);
    let requests = FixedWindow::new(5, hour).unwrap().with_name("requests");
    let tokens = FixedWindow::new(1_000, hour).unwrap().with_name("tokens").with_unit("tokens");
    store.set_policy(Policy::new("llm", [requests, tokens]).unwrap()).await.unwrap();
    store
}

fn tokens(n: u64) -> Cost {
    Cost::of_units([("tokens", n)])
}

async fn left(store: &impl Store) -> (u64, u64) {
    let answer = ask(store, Verb::Peek, charge("llm", Cost::from(0))).await;
    (answer.limits[0].remaining.unwrap(), answer.limits[1].remaining.unwrap())
}

#[tokio::test]
async fn requests_default_to_one() {
    let store = llm().await;
    assert!(ask(&store, Verb::Check, charge("llm", tokens(800))).await.decision.is_allowed());
    assert_eq!(left(&store).await, (4, 200));
    let refused = ask(&store, Verb::Check, charge("llm", tokens(300))).await.decision;
    assert_eq!((refused.is_allowed(), refused.granted()), (false, 0));
    assert_eq!(left(&store).await, (4, 200), "nothing of it was charged");
    let two = Cost::of_units([("requests", 2)]);
    assert!(ask(&store, Verb::Check, charge("llm", two)).await.decision.is_allowed());
    assert_eq!(left(&store).await, (2, 200));
    store.apply(Verb::Refund, &[charge("llm", tokens(50))]).await.unwrap();
    store.apply(Verb::Debit, &[charge("llm", tokens(50))]).await.unwrap();
    assert_eq!(left(&store).await, (2, 200), "no request was given back, or made");
    // Charges for the same key are one.
    let both = [charge("llm", tokens(150)), charge("llm", tokens(51))];
    let answers = store.apply(Verb::Check, &both).await.unwrap();
    assert!(answers.iter().all(|answer| !answer.decision.is_allowed()));
}

#[tokio::test]
async fn one_number_is_no_cost_of_several_units() {
    let store = llm().await;
    let several = "policy `llm` counts `requests` and `tokens`; name them in the cost";
    let refused = |said: Result<(), StoreError>| match said {
        Err(error @ StoreError::BadCost(_)) => assert_eq!(error.to_string(), several),
        other => panic!("{other:?}"),
    };
    refused(store.apply(Verb::Check, &[charge("llm", Cost::from(1))]).await.map(drop));
    refused(now_or_never(store.check_n("llm", b"alice", 1)).unwrap().map(drop));
    refused(now_or_never(store.peek_n("llm", b"alice", 1)).unwrap().map(drop));
    assert!(now_or_never(store.check_n("llm", b"alice", 0)).unwrap().unwrap().is_allowed());
    let unknown = charge("llm", Cost::of_units([("token", 1)]));
    let error = store.apply(Verb::Check, &[unknown]).await.unwrap_err().to_string();
    assert_eq!(error, "policy `llm` counts `requests` and `tokens`, not `token`");
    assert_eq!(left(&store).await, (5, 1_000));
    let nary = Policy::new(
        "p",
        [Limit::per_second(1).with_name("a"), Limit::per_second(1).with_name("b").with_unit("b")],
    );
    assert_eq!(nary.unwrap().with_mode(Mode::Partial).unwrap_err(), PolicyError::NotPartial);
}

#[tokio::test]
async fn an_estimate_is_settled_unit_by_unit() {
    let store = llm().await;
    let charges = [charge("llm", tokens(600))];
    let hold = Hold { id: Some("r"), ttl: None, charges: &charges, on_expiry: OnExpiry::Keep };
    assert!(store.reserve(&hold).await.unwrap().id.is_some());
    assert_eq!(left(&store).await, (4, 400));
    let plain = store.settle("r", Settlement::Commit(&[5.into()])).await.unwrap_err();
    assert!(matches!(plain, StoreError::BadCost(_)), "{plain}");
    let settled = store.settle("r", Settlement::Commit(&[tokens(750)])).await.unwrap();
    assert_eq!(settled.held[0], Cost::of_units([("requests", 1), ("tokens", 600)]));
    assert_eq!(settled.used[0], Cost::of_units([("requests", 1), ("tokens", 750)]));
    assert_eq!(left(&store).await, (4, 250));
    assert_eq!(store.settle("r", Settlement::Cancel).await.unwrap(), settled);
    let other = [charge("llm", tokens(601))];
    let again = Hold { charges: &other, ..hold };
    assert!(store.reserve(&again).await.is_err(), "the id holds something else");
    let hold = Hold { id: Some("s"), ..hold };
    assert!(store.reserve(&hold).await.unwrap().id.is_none(), "only 250 are left");
    let little = [charge("llm", tokens(200))];
    let hold = Hold { charges: &little, ..hold };
    assert!(store.reserve(&hold).await.unwrap().id.is_some());
    store.settle("s", Settlement::Cancel).await.unwrap();
    assert_eq!(left(&store).await, (4, 250), "all of it is back");
    let two = [charge("llm", Cost::of_units([("requests", 2), ("tokens", 100)]))];
    let hold = Hold { id: Some("t"), charges: &two, ..hold };
    store.reserve(&hold).await.unwrap();
    let settled = store.settle("t", Settlement::Commit(&[tokens(10)])).await.unwrap();
    assert_eq!(settled.used[0].of("requests"), 2, "as many as are held");
    assert_eq!(left(&store).await, (2, 240));
}

/// Policies that share keys must count the same units: a refund would otherwise be ambiguous.
#[tokio::test]
async fn a_variant_counts_the_same_units() {
    let store = llm().await;
    let variant = |name: &str, units: [&str; 2]| {
        let limit = |unit: &str| Limit::per_hour(9).with_name(unit).with_unit(unit);
        Policy::new(name, units.map(limit)).unwrap()
    };
    let same = variant("llm@same", ["requests", "tokens"]);
    store.set_variant("llm", same, Migration::Units).await.unwrap();
    for other in
        [variant("llm@other", ["requests", "bytes"]), Limit::per_hour(1).with_name("o").into()]
    {
        let error = store.set_variant("llm", other, Migration::Units).await.unwrap_err();
        assert!(error.to_string().contains("counts other units than `llm`"), "{error}");
    }
}

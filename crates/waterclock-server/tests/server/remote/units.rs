//! A server whose policy counts several units, as the store of another process.

use waterclock::{Answer, Charge, Cost, Hold, OnExpiry, Settlement, Store, StoreError, Verb};

use super::{patient, url_of};
use crate::at_work::AtWork;

const POLICIES: &str = r#"
[policies.llm]
limits = [
  { name = "requests", algorithm = "fixed-window", limit = 5, per = "365d", align = "epoch" },
  { name = "tokens", algorithm = "fixed-window", limit = 1000, per = "365d", align = "epoch", unit = "tokens" },
]
"#;

fn tokens(n: u64) -> Cost {
    Cost::of_units([("tokens", n)])
}

async fn ask(store: &impl Store, verb: Verb, cost: Cost) -> Result<Answer, StoreError> {
    Ok(store.apply(verb, &[Charge::new("llm", b"k", cost)]).await?.remove(0))
}

#[tokio::test]
async fn units_cross_the_network() {
    let server = AtWork::serving(POLICIES).await;
    let store = patient(&url_of(&server)).connect().await.unwrap();
    let left = async || {
        let peeked = ask(&store, Verb::Peek, Cost::from(0)).await.unwrap();
        (peeked.limits[0].remaining.unwrap(), peeked.limits[1].remaining.unwrap())
    };
    assert!(ask(&store, Verb::Check, tokens(800)).await.unwrap().decision.is_allowed());
    assert_eq!(left().await, (4, 200));
    assert!(!ask(&store, Verb::Check, tokens(300)).await.unwrap().decision.is_allowed());
    // Only a request, and nothing of anything else.
    assert!(ask(&store, Verb::Check, tokens(0)).await.unwrap().decision.is_allowed());
    assert_eq!(left().await, (3, 200));
    ask(&store, Verb::Refund, tokens(300)).await.unwrap();
    assert_eq!(left().await, (3, 500));
    ask(&store, Verb::Debit, tokens(100)).await.unwrap();
    assert_eq!(left().await, (3, 400));
    let error = ask(&store, Verb::Check, Cost::from(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::BadCost(_)), "{error}");
    let charges = [Charge::new("llm", b"k", tokens(300))];
    let hold = Hold { id: Some("r"), ttl: None, charges: &charges, on_expiry: OnExpiry::Keep };
    assert!(store.reserve(&hold).await.unwrap().id.is_some());
    assert!(store.reserve(&hold).await.unwrap().id.is_some(), "again, it is the same");
    assert_eq!(left().await, (2, 100));
    let settled = store.settle("r", Settlement::Commit(&[tokens(50)])).await.unwrap();
    assert_eq!(settled.used[0], Cost::of_units([("requests", 1), ("tokens", 50)]));
    assert_eq!(left().await, (2, 350));
}

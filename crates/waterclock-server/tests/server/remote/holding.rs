//! Reservations of a server as the store of another process has them.

use std::time::Duration;

use waterclock::{
    BadReservation, Charge, Cost, Hold, MemoryStore, OnExpiry, Settlement, Store, StoreError, Verb,
};

use super::{patient, url_of};
use crate::at_work::AtWork;

const POLICIES: &str = r#"
[policies.bucket]
limits = [{ algorithm = "gcra", limit = 1, per = "10d", capacity = 20 }]

[policies.part]
mode = "nary"
limits = [{ algorithm = "leaky-bucket", capacity = 7, drip = 2, every = "10d" }]

[policies.window]
limits = [{ algorithm = "rolling-window", limit = 15, per = "30d" }]

[policies.places]
limits = [{ algorithm = "concurrency", limit = 3, lease = "1h" }]
"#;

const NAMES: [&str; 4] = ["bucket", "part", "window", "places"];

fn hold<'a>(id: Option<&'a str>, charges: &'a [Charge<'a>]) -> Hold<'a> {
    Hold { id, ttl: None, charges, on_expiry: OnExpiry::Keep }
}

#[tokio::test]
async fn a_server_holds_as_a_store_in_this_process() {
    let server = AtWork::serving(POLICIES).await;
    let there = patient(&url_of(&server)).connect().await.unwrap();
    let here = MemoryStore::default();
    for name in NAMES {
        here.set_policy(there.policy(name).unwrap_or_else(|| panic!("{name}"))).await.unwrap();
    }
    let mut random = fastrand::Rng::with_seed(11);
    let (mut held, mut ids) = (0, Vec::new());
    for step in 0..600 {
        let cost = |random: &mut fastrand::Rng| random.u64(0..=4);
        if random.bool() || ids.is_empty() {
            let charges: Vec<Charge<'_>> = (0..random.usize(1..=2))
                .map(|_| {
                    Charge::new(
                        NAMES[random.usize(..NAMES.len())],
                        [b"a".as_slice(), b"\xff"][random.usize(..2)],
                        cost(&mut random),
                    )
                })
                .collect();
            let id = format!("id/{step}");
            let asked = hold(Some(&id), &charges);
            if charges.iter().all(|charge| charge.cost.is_zero()) {
                let nothing = Err(BadReservation::NoCost.into());
                assert_eq!(
                    (there.reserve(&asked).await, here.reserve(&asked).await),
                    (nothing.clone(), nothing)
                );
                continue;
            }
            let (a, b) =
                (there.reserve(&asked).await.unwrap(), here.reserve(&asked).await.unwrap());
            assert_eq!(a.id, b.id, "step {step}: {charges:?}");
            assert!(a.expires_in.abs_diff(b.expires_in) < Duration::from_secs(60));
            for (a, b) in a.answers.iter().zip(&b.answers) {
                let told = |answer: &waterclock::Answer| {
                    let decision = &answer.decision;
                    let outcome = (decision.is_allowed(), decision.granted());
                    (outcome, decision.remaining(), decision.refused_by(), answer.source)
                };
                assert_eq!(told(a), told(b), "step {step}: {charges:?}");
            }
            if a.id.is_some() {
                held += 1;
                ids.push((id, charges.len()));
            }
        } else {
            let (id, charges) = ids[random.usize(..ids.len())].clone();
            let costs: Vec<Cost> = (0..charges).map(|_| cost(&mut random).into()).collect();
            let with = || match step % 3 {
                0 => Settlement::Cancel,
                _ => Settlement::Commit(&costs),
            };
            let (a, b) = (there.settle(&id, with()).await, here.settle(&id, with()).await);
            assert_eq!(a, b, "step {step}");
            if random.bool() {
                let bucket = [Charge::new("bucket", b"a", 30)];
                there.apply(Verb::Refund, &bucket).await.unwrap();
                here.apply(Verb::Refund, &bucket).await.unwrap();
            }
        }
    }
    assert!(held > 50, "{held}");
}

#[tokio::test]
async fn what_is_wrong_is_told_as_a_store_tells_it() {
    let server = AtWork::serving(POLICIES).await;
    let store = patient(&url_of(&server)).connect().await.unwrap();
    let unknown = StoreError::UnknownReservation("no/body".to_owned());
    assert_eq!(store.settle("no/body", Settlement::Cancel).await, Err(unknown.clone()));
    assert_eq!(store.settle("no/body", Settlement::Commit(&[1.into()])).await, Err(unknown));
    let charge = [Charge::new("places", b"k", 1)];
    let is_bad = |found: &StoreError| matches!(found, StoreError::BadReservation(_));
    for id in ["", "with space"] {
        let found = store.reserve(&hold(Some(id), &charge)).await.unwrap_err();
        assert!(is_bad(&found), "{found:?}");
    }
    let long = Hold { ttl: Some(Duration::from_secs(7_200)), ..hold(None, &charge) };
    let found = store.reserve(&long).await.unwrap_err();
    assert!(is_bad(&found) && found.to_string().contains("at most"), "{found:?}");
    assert!(is_bad(&store.reserve(&hold(None, &[])).await.unwrap_err()));
    let one = store.reserve(&hold(None, &charge)).await.unwrap().id.unwrap();
    let two = store.settle(&one, Settlement::Commit(&[1.into(), 2.into()])).await.unwrap_err();
    assert!(is_bad(&two), "{two:?}");
    let other = [Charge::new("unknown", b"k", 1)];
    let found = store.reserve(&hold(None, &other)).await.unwrap_err();
    assert_eq!(found, StoreError::UnknownPolicy("unknown".to_owned()));
    let checked = store.apply(Verb::Check, &charge).await.unwrap_err();
    assert!(checked.to_string().contains("only a reservation"), "{checked:?}");
    assert!(!store.is_degraded(), "the server answers all the time");
}

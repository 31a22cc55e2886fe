//! Servers that say nothing, or something else.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use waterclock::{
    Charge, DynStore, Failure, OnStoreError, Serving, Source, Store, StoreError, Verb,
};

use super::impostor::Impostor;
use super::{PATIENT, check, patient};

/// Shorter than waiting for an answer that does not come.
const NOT_FOREVER: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_server_that_never_answers_costs_one_deadline_now_and_then() {
    let silent = Impostor::saying("").await;
    let store = patient(&silent.url()).deadline(SHORT).connect().await.unwrap();
    let begun = Instant::now();
    let mut admitted = 0;
    for _ in 0..300 {
        let answer = timeout(NOT_FOREVER, check(&store, "p", b"k", 1)).await.expect("in time");
        let answer = answer.unwrap();
        assert_eq!(answer.source, Source::Local);
        admitted += answer.decision.granted();
    }
    assert_eq!(admitted, 5, "what stands in decides by the same policy");
    assert!(begun.elapsed() < NOT_FOREVER, "three hundred deadlines would be thirty seconds");
    assert!((1..30).contains(&silent.asked()), "{}", silent.asked());
    assert!(store.is_degraded());
}

#[tokio::test]
async fn each_node_serves_its_share() {
    let silent = Impostor::saying("").await;
    let store = patient(&silent.url()).deadline(SHORT).nodes(2).connect().await.unwrap();
    let mut admitted = 0;
    for _ in 0..10 {
        admitted += check(&store, "p", b"k", 1).await.unwrap().decision.granted();
    }
    assert_eq!(admitted, 2);
}

/// Without the server, a share is served for as long as was said, and checks are errors afterwards.
#[tokio::test]
async fn a_share_ends() {
    let silent = Impostor::saying("").await;
    let local_for = Duration::from_secs(2);
    let builder = patient(&silent.url()).deadline(SHORT).local_for(local_for);
    let store = builder.connect().await.unwrap();
    assert_eq!(check(&store, "p", b"k", 1).await.unwrap().source, Source::Local);
    sleep(local_for).await;
    assert!(check(&store, "p", b"k", 1).await.is_err());
}

#[tokio::test]
async fn allow_and_deny_do_as_they_say() {
    let silent = Impostor::saying("").await;
    let with = |order| patient(&silent.url()).deadline(SHORT).on_store_error(order).connect();
    let store = with(OnStoreError::Allow).await.unwrap();
    for _ in 0..20 {
        let answer = check(&store, "p", b"k", 1_000).await.unwrap();
        assert!(answer.decision.is_allowed());
        assert_eq!((answer.decision.granted(), answer.source), (1_000, Source::Policy));
    }
    let store = with(OnStoreError::Deny).await.unwrap();
    let failure = async || check(&store, "p", b"k", 1).await.unwrap_err().failure();
    assert_eq!(failure().await, Some(Failure::Timeout));
    // From time to time a call probes the server.
    let mut failures = Vec::new();
    for _ in 0..20 {
        failures.extend(failure().await);
    }
    assert!(failures.contains(&Failure::Open), "{failures:?}");
}

#[tokio::test]
async fn a_policy_is_served_as_it_was_set() {
    let silent = Impostor::saying("").await;
    let store = patient(&silent.url()).deadline(SHORT).connect().await.unwrap();
    let strict = Serving::new(OnStoreError::Deny);
    let erased = DynStore::new(store.clone());
    erased.set_policy_as(store.policy("p").unwrap(), strict).await.unwrap();
    assert!(check(&store, "p", b"k", 1).await.is_err());
    store.refresh().await.unwrap();
    assert!(check(&store, "p", b"k", 1).await.is_err());
}

#[tokio::test]
async fn a_probe_asks_the_server() {
    let silent = Impostor::saying("").await;
    let store = DynStore::new(patient(&silent.url()).connect().await.unwrap());
    store.probe().await.unwrap();
    drop(silent);
    let gone = async || store.probe().await.is_err();
    crate::patience::eventually("the probe fails", gone).await;
}

#[tokio::test]
async fn one_bad_answer_is_not_the_end_of_good_ones() {
    let bad = Impostor::saying(http("500 Internal Server Error", r#"{"detail":"it fell over"}"#));
    let bad = bad.await;
    let store = patient(&bad.url()).connect().await.unwrap();
    for asked in 1..=5 {
        assert!(!store.is_degraded(), "{asked}");
        assert_eq!(check(&store, "p", b"k", 1).await.unwrap().source, Source::Local);
        assert_eq!(bad.asked(), asked, "the next one asks as well");
    }
    assert!(store.is_degraded(), "five in a row are enough");
}

#[tokio::test]
async fn a_server_that_rejects_this_client_is_not_asked_again_and_again() {
    let problem = r#"{"detail":"slow down"}"#;
    let rejecting = Impostor::saying(http("429 Too Many Requests", problem)).await;
    let store = patient(&rejecting.url()).connect().await.unwrap();
    for _ in 0..5 {
        check(&store, "p", b"k", 1).await.unwrap();
    }
    assert!(store.is_degraded());
    // The pause before the first trial is over, and the one after it begins.
    tokio::time::sleep(Duration::from_millis(110)).await;
    check(&store, "p", b"k", 1).await.unwrap();
    assert_eq!(rejecting.asked(), 6);
    check(&store, "p", b"k", 1).await.unwrap();
    assert_eq!(rejecting.asked(), 6);
}

#[tokio::test]
async fn a_server_that_denies_everything_is_believed() {
    for (failure, kind) in [("oom", Failure::OutOfMemory), ("of tomorrow", Failure::BadReply)] {
        let problem = format!(r#"{{"detail":"the store failed","failure":"{failure}"}}"#);
        let denying = Impostor::saying(http("503 Service Unavailable", &problem)).await;
        let with = |order| patient(&denying.url()).on_store_error(order).connect();
        for order in [OnStoreError::Local, OnStoreError::Allow, OnStoreError::Deny] {
            let store = with(order).await.unwrap();
            for _ in 0..30 {
                let error = check(&store, "p", b"k", 1).await.unwrap_err();
                assert_eq!(error.failure(), Some(kind), "{error}");
            }
            assert!(!store.is_degraded());
        }
    }
}

#[tokio::test]
async fn what_must_reach_the_server_fails_without_it() {
    let silent = Impostor::saying("").await;
    let store = patient(&silent.url()).deadline(SHORT).connect().await.unwrap();
    for verb in [Verb::Refund, Verb::Reset] {
        let charge = Charge::new("p", b"k", 1);
        let error = store.apply(verb, &[charge]).await.unwrap_err();
        assert!(error.failure().is_some(), "{verb:?}: {error}");
    }
}

#[tokio::test]
async fn a_reset_ends_with_the_first_failure() {
    let broken = Impostor::saying(http("500 Internal Server Error", "")).await;
    let store = patient(&broken.url()).connect().await.unwrap();
    let charges = [b"a", b"b", b"c"].map(|key| Charge::new("p", key, 1));
    assert!(store.apply(Verb::Reset, &charges).await.is_err());
    assert_eq!(broken.asked(), 1);
}

/// A debit counts against this node's share, as it does for a store on Redis.
#[tokio::test]
async fn a_debit_falls_back_like_a_check() {
    let silent = Impostor::saying("").await;
    let with = |order| patient(&silent.url()).deadline(SHORT).on_store_error(order).connect();
    let debit = || [Charge::new("p", b"k", 4)];
    let store = with(OnStoreError::Local).await.unwrap();
    let answer = store.apply(Verb::Debit, &debit()).await.unwrap().remove(0);
    assert_eq!((answer.source, answer.decision.remaining()), (Source::Local, Some(1)));
    let store = with(OnStoreError::Deny).await.unwrap();
    assert!(store.apply(Verb::Debit, &debit()).await.unwrap_err().failure().is_some());
}

fn http(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// Like a decision, but for what is replaced.
fn decision(from: &str, to: &str) -> String {
    let right = r#"{"key":"k","cost":1,"allowed":true,"granted":1,"limit":5,"remaining":4,"retry_after_us":0,"next_unit_us":1,"reset_after_us":1,"refused_by":[],"policy":"p","source":"authoritative","limits":[]}"#;
    assert!(right.contains(from));
    right.replacen(from, to, 1)
}

#[tokio::test]
async fn nonsense_is_never_an_answer() {
    use Failure::{Auth, BadReply};
    for (answer, kind) in [
        ("SSH-2.0-OpenSSH_9.9\r\n\r\n".to_owned(), BadReply),
        ("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{".to_owned(), BadReply),
        (http("200 OK", ""), BadReply),
        (http("200 OK", "<html>"), BadReply),
        (http("200 OK", "{}"), BadReply),
        (http("200 OK", &decision("\"p\"", "\"q\"")), BadReply),
        (http("200 OK", &decision("\"cost\":1", "\"cost\":2")), BadReply),
        (http("200 OK", &decision("\"granted\":1", "\"granted\":7")), BadReply),
        (http("200 OK", &decision("\"remaining\":4", "\"remaining\":-4")), BadReply),
        (http("200 OK", &decision("\"next_unit_us\":1,", "")), BadReply),
        (http("204 No Content", ""), BadReply),
        (http("302 Found", &decision("1", "1")), BadReply),
        (http("404 Not Found", "<html>"), BadReply),
        (http("500 Internal Server Error", r#"{"detail":"it fell over"}"#), BadReply),
        (http("503 Service Unavailable", r#"{"detail":"overloaded"}"#), BadReply),
        (http("429 Too Many Requests", r#"{"detail":"slow down"}"#), Auth),
        (http("401 Unauthorized", r#"{"detail":"unknown token"}"#), Auth),
        (http("403 Forbidden", ""), Auth),
    ] {
        let impostor = Impostor::saying(answer.clone()).await;
        let store = patient(&impostor.url()).on_store_error(OnStoreError::Deny).connect();
        let error = timeout(PATIENT, check(&store.await.unwrap(), "p", b"k", 1)).await.unwrap();
        let error = error.expect_err(&answer);
        assert_eq!(error.failure(), Some(kind), "{answer}: {error}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
        assert_eq!(impostor.asked(), 1, "asked once and not again");

        let store = patient(&impostor.url()).connect().await.unwrap();
        assert_eq!(check(&store, "p", b"k", 1).await.unwrap().source, Source::Local, "{answer}");
    }
    let right = Impostor::saying(http("200 OK", &decision("1", "1"))).await;
    let store = patient(&right.url()).connect().await.unwrap();
    assert_eq!(check(&store, "p", b"k", 1).await.unwrap().source, Source::Authoritative);
}

#[tokio::test]
async fn a_policy_from_the_future_is_not_used() {
    let silent = Impostor::saying("").await;
    let store = patient(&silent.url()).connect().await.unwrap();
    assert!(store.policy("odd").is_none());
    let error = check(&store, "odd", b"k", 1).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Unfit(reason) if reason.to_string().contains("oracle")),
        "{error}"
    );
    assert_eq!(silent.asked(), 0);
}

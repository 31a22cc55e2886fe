//! A server that goes, and comes back.

use std::time::Duration;

use waterclock::{Charge, Source, Store, Verb};

use super::{check, patient, url_of};
use crate::at_work::AtWork;
use crate::patience::eventually;

const POLICY: &str =
    "[policies.p]\nlimits = [{ algorithm = \"gcra\", limit = 10, per = \"10d\" }]\n";

#[tokio::test]
async fn a_server_that_goes_is_stood_in_for_until_it_is_back() {
    let server = AtWork::serving(POLICY).await;
    let address = server.http_address();
    let store = patient(&url_of(&server)).deadline(Duration::from_secs(5)).connect().await.unwrap();
    let first = check(&store, "p", b"k", 1).await.unwrap();
    assert_eq!((first.source, first.decision.remaining()), (Source::Authoritative, Some(9)));

    server.running.stop().await;
    for spent in 1..=3 {
        let answer = check(&store, "p", b"k", 1).await.unwrap();
        assert_eq!((answer.source, answer.decision.remaining()), (Source::Local, Some(10 - spent)));
    }
    assert!(store.is_degraded());

    let server = AtWork::serving_at(address, POLICY).await;
    let peek = async || {
        let charge = Charge::new("p", b"k", 1);
        store.apply(Verb::Peek, &[charge]).await.unwrap().remove(0)
    };
    eventually("back", async || peek().await.source == Source::Authoritative).await;
    assert!(!store.is_degraded());
    // It kept nothing, and gets what was admitted without it.
    eventually("told", async || peek().await.decision.remaining() == Some(7)).await;
    server.running.stop().await;
}

//! A server whose own store fails, with a policy that says `deny`.

use waterclock::{Failure, Source, Store};
use waterclock_conformance::real::RedisServer;

use super::{check, patient, url_of};
use crate::at_work::AtWork;
use crate::patience::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_denies_is_denied() {
    let redis = RedisServer::start();
    let policies = ["deny", "local"].map(|order| {
        format!(
            "[policies.{order}]\non_store_error = \"{order}\"\n\
             limits = [{{ algorithm = \"gcra\", limit = 10, per = \"10d\" }}]\n"
        )
    });
    let file = format!("[store]\nurl = \"{}\"\n{}", redis.url(), policies.concat());
    let server = AtWork::serving(&file).await;
    // It would decide by its own counts if the server did not.
    let store = patient(&url_of(&server)).connect().await.unwrap();
    eventually("authoritative", async || {
        check(&store, "deny", b"first", 1).await.is_ok_and(|it| it.source == Source::Authoritative)
    })
    .await;
    redis.kill();
    for _ in 0..30 {
        let error = check(&store, "deny", b"k", 1).await.unwrap_err();
        let kind = error.failure().expect("a failure");
        assert_ne!(kind, Failure::BadReply, "{error}");
        assert!(error.to_string().contains("denies"), "{error}");
        assert!(!store.is_degraded(), "the server is well");
    }
    let answer = check(&store, "local", b"k", 1).await.unwrap();
    assert_eq!((answer.source, answer.decision.remaining()), (Source::Local, Some(9)));
    assert!(!store.is_degraded());
    redis.restart();
    eventually("authoritative again", async || {
        check(&store, "deny", b"last", 1).await.is_ok_and(|it| it.source == Source::Authoritative)
    })
    .await;
}

//! Over TLS, with an authority of one's own.

use waterclock::{Charge, Limit, Policy, Store, Verb};
use waterclock_conformance::real::RedisServer;
use waterclock_redis::RedisStore;

#[tokio::test]
async fn a_certificate_of_a_known_authority_is_trusted_and_no_other() {
    let server = RedisServer::start_with_tls();
    let trusting =
        RedisStore::builder(&server.tls_url()).root_certificate(server.ca_pem().as_bytes());
    let store = trusting.connect().await.unwrap();
    let policy: Policy = Limit::per_hour(1).with_name("p").into();
    store.set_policy(policy).await.unwrap();
    let charge = Charge::new("p", b"alice", 1);
    let allowed = async || {
        store.apply(Verb::Check, std::slice::from_ref(&charge)).await.unwrap()[0]
            .decision
            .is_allowed()
    };
    assert!(allowed().await);
    assert!(!allowed().await);
    let error = RedisStore::connect(&server.tls_url()).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}

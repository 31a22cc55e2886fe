//! The rights that a Redis user needs, as the guide lists them, and what is said when one is missing.

use waterclock::{
    ErrorRate, Failure, FixedWindow, Hold, OnExpiry, Outcome, Policy, RollingWindow, Settlement,
    Store, Verb,
};
use waterclock_conformance::real::{Cluster, Program, RedisServer};
use waterclock_redis::{RedisStore, RedisStoreBuilder};

use super::DENY;
use crate::scene::{HOUR, PATIENT, SECOND, asking, one, still_bucket, units};

pub(crate) const LEAST: &str = "~wc* +eval +evalsha +get +mget +set +del +getrange +setrange +pexpire +persist +hget +hset +hdel +hkeys +time";
const CLUSTER: &str = "+cluster|slots +asking";
const WAIT: &str = "+wait";
const CLEAR: &str = "+scan +unlink";

/// Makes a user with these rights and no others.
fn let_in(server: &RedisServer, rights: &str) {
    let mut command = vec!["ACL", "SETUSER", "guest", "reset", "on", ">sesame"];
    command.extend(rights.split(' '));
    server.command(&command).unwrap();
}

fn guest(server: &RedisServer) -> RedisStoreBuilder {
    let url = format!("redis://guest:sesame@{}", server.addr());
    asking(&url).serving(DENY).deadline(PATIENT)
}

/// Everything that a store does.
async fn exercise(store: &RedisStore) {
    let window = |limit| Policy::new("p", [FixedWindow::new(limit, HOUR).unwrap()]).unwrap();
    let breaker = Policy::new("b", [ErrorRate::new(5_000, HOUR, 10, HOUR).unwrap()]).unwrap();
    store.set_policy(breaker).await.unwrap();
    let rolling = Policy::new("p", [RollingWindow::new(100, HOUR).unwrap()]).unwrap();
    for policy in [still_bucket(100), window(100), window(200), rolling] {
        store.set_policy(policy).await.unwrap();
        let charges = [one("alice"), one("bob")];
        for verb in [Verb::Check, Verb::Peek, Verb::Debit, Verb::Refund, Verb::Reset] {
            store.apply(verb, &charges).await.unwrap();
        }
        store.apply(Verb::Check, &[one("alice")]).await.unwrap();
    }
    let report = waterclock::Charge::new("b", b"alice", 1);
    store.apply(Verb::Report(Outcome::Error), &[report]).await.unwrap();
    for with in [Settlement::Commit(&[2.into()]), Settlement::Cancel] {
        let charges = &[units("alice", 3)];
        let hold = Hold { id: None, ttl: Some(SECOND), charges, on_expiry: OnExpiry::Keep };
        let held = store.reserve(&hold).await.unwrap();
        store.settle(&held.id.expect("it is held"), with).await.unwrap();
    }
}

fn every_server() -> [RedisServer; 2] {
    [Program::Redis, Program::Valkey].map(|program| RedisServer::start_as(program, &[]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_rights_are_enough_and_each_is_needed() {
    for server in every_server() {
        let_in(&server, LEAST);
        exercise(&guest(&server).connect().await.unwrap()).await;
        let rights: Vec<&str> = LEAST.split(' ').collect();
        for (i, right) in rights.iter().enumerate() {
            let others = [&rights[..i], &rights[i + 1..]].concat();
            let_in(&server, &others.join(" "));
            let error = guest(&server).connect().await.unwrap_err();
            assert_eq!(error.failure(), Some(Failure::Auth), "{right}: {error}");
            let text = error.to_string();
            assert!(text.contains("the user lacks permission"), "{right}: {text}");
            let named = right.trim_start_matches('+').to_uppercase();
            assert!(right.starts_with('~') || text.to_uppercase().contains(&named), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_rarely_needs_more() {
    let server = RedisServer::start();
    let_in(&server, LEAST);
    let store = guest(&server).connect().await.unwrap();
    exercise(&store).await;
    let refused = store.clear().await.unwrap_err();
    assert_eq!(refused.failure(), Some(Failure::Auth), "{refused}");
    let refused = guest(&server).replicas(1).connect().await.unwrap_err();
    assert!(refused.to_string().contains("lacks permission for WAIT"), "{refused}");
    let database = format!("redis://guest:sesame@{}/1", server.addr());
    let refused = asking(&database).connect().await.unwrap_err();
    assert_eq!(refused.failure(), Some(Failure::Auth), "{refused}");
    assert!(refused.to_string().contains("the user lacks permission"), "{refused}");
    let_in(&server, &format!("{LEAST} {CLEAR} {WAIT} +select"));
    asking(&database).connect().await.unwrap();
    let store = guest(&server).connect().await.unwrap();
    exercise(&store).await;
    store.clear().await.unwrap();
    assert_eq!(server.command(&["DBSIZE"]).as_int(), 0);
    guest(&server).replicas(1).connect().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_in_a_cluster() {
    let cluster = Cluster::start(3, 0);
    let builder = || {
        let url = cluster.url().replace("://", "://guest:sesame@");
        asking(&url).serving(DENY).deadline(PATIENT)
    };
    cluster.nodes().iter().for_each(|node| let_in(node, LEAST));
    let error = builder().connect().await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Auth), "{error}");
    assert!(error.to_string().contains("the user lacks permission"), "{error}");
    cluster.nodes().iter().for_each(|node| let_in(node, &format!("{LEAST} {CLUSTER}")));
    exercise(&builder().connect().await.unwrap()).await;
}

/// A right is withdrawn while the store is in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_is_withdrawn() {
    for server in every_server() {
        let_in(&server, LEAST);
        let store = guest(&server).connect().await.unwrap();
        store.set_policy(still_bucket(100)).await.unwrap();
        store.apply(Verb::Check, &[one("alice")]).await.unwrap();
        server.command(&["ACL", "SETUSER", "guest", "-set"]).unwrap();
        let error = store.check("p", "alice").await.unwrap_err();
        assert_eq!(error.failure(), Some(Failure::Auth), "{error}");
        assert!(error.to_string().contains("the user lacks permission"), "{error}");
    }
}

/// The operator is warned if the user may know, and the store works if not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eviction_is_warned_of_where_it_may_be_seen() {
    let server = RedisServer::start_with(&[("maxmemory-policy", "allkeys-lru")]);
    let_in(&server, LEAST);
    assert!(guest(&server).start().unwrap().probe().await.unwrap().is_empty());
    let_in(&server, &format!("{LEAST} +info"));
    let warnings = guest(&server).start().unwrap().probe().await.unwrap();
    assert!(warnings[0].contains("allkeys-lru"), "{warnings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_run_the_scripts() {
    let server = RedisServer::start_as(Program::Redis6, &[]);
    let error = asking(&server.url()).connect().await.unwrap_err();
    assert_eq!(error.failure(), Some(Failure::Version), "{error}");
    let text = error.to_string();
    assert!(text.contains("need Redis or Valkey 7.0 or newer") && text.contains("'#'"), "{text}");
}

/// Servers and proxies that only speak the older protocol do not know `HELLO`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_hello() {
    for program in [Program::Redis, Program::Valkey] {
        for (password, login) in [("", ""), ("sesame", ":sesame@")] {
            let settings = [("rename-command", "HELLO \"\""), ("requirepass", password)];
            let server = RedisServer::start_as(program, &settings);
            let url = format!("redis://{login}{}", server.addr());
            let builder = || asking(&url).serving(DENY).deadline(PATIENT);
            let store = builder().connect().await.unwrap();
            exercise(&store).await;
            // A call that meets a closed connection fails; the next one has a new connection.
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
            _ = store.check("p", "alice").await;
            store.apply(Verb::Check, &[one("alice")]).await.unwrap();
        }
    }
}

#[test]
fn the_guide_lists_them() {
    let guide = include_str!("../../../docs/guide.md").replace("\\|", "|");
    for rights in [LEAST, CLUSTER, WAIT, CLEAR] {
        assert!(guide.contains(&format!("`{rights}`")), "{rights}");
    }
}

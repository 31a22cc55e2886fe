//! Policies that Redis keeps as text for all nodes.

use std::collections::BTreeMap;

use waterclock::store::{MAX_KEPT_POLICIES, MAX_KEPT_TEXT};
use waterclock::{Failure, KeptChanges, Store, StoreError};
use waterclock_conformance::real::{Cluster, RedisServer, Sentinel};
use waterclock_redis::RedisStore;

use crate::faults::rights::LEAST;
use crate::scene::{PATIENT, asking};

async fn node(url: &str) -> RedisStore {
    asking(url).deadline(PATIENT).connect().await.unwrap()
}

/// A node that follows what is kept, page by page.
#[derive(Default)]
struct Follower {
    version: u64,
    texts: BTreeMap<String, String>,
    pages: usize,
    started_over: usize,
}

impl Follower {
    async fn follow(&mut self, store: &RedisStore) {
        for _ in 0..10_000 {
            let page: KeptChanges = store.kept_policies(self.version).await.unwrap();
            self.pages += 1;
            if page.starts_over {
                self.started_over += 1;
                self.texts.clear();
            }
            for (name, text) in page.changes {
                match text {
                    Some(text) => _ = self.texts.insert(name, text),
                    None => _ = self.texts.remove(&name),
                }
            }
            self.version = page.version;
            if !page.has_more {
                return;
            }
        }
        panic!("no end of pages");
    }

    fn names(&self) -> Vec<&str> {
        self.texts.keys().map(|name| &**name).collect()
    }
}

async fn nodes_agree(url: &str) {
    let (one, two) = (node(url).await, node(url).await);
    let mut follower = Follower::default();
    follower.follow(&two).await;
    assert_eq!((follower.version, follower.names()), (0, vec![]));
    let first = one.keep_policy("a/b.c:d", r#"{"limits":["5/m"]}"#).await.unwrap();
    assert!(!first.existed && first.before == 0 && first.version > 0);
    let again = two.keep_policy("a/b.c:d", r#"{"limits":["5/m"]}"#).await.unwrap();
    assert!(again.existed && !again.is_change() && again.version == first.version);
    two.keep_policy("b", "ü").await.unwrap();
    follower.follow(&one).await;
    assert_eq!((follower.names(), &*follower.texts["b"]), (vec!["a/b.c:d", "b"], "ü"));
    let other = one.keep_policy("b", "other").await.unwrap();
    assert!(other.existed && other.before == follower.version);
    let dropped = two.drop_kept_policy("a/b.c:d").await.unwrap();
    assert!(dropped.existed && dropped.before == other.version);
    assert!(!one.drop_kept_policy("a/b.c:d").await.unwrap().is_change());
    let page = two.kept_policies(follower.version).await.unwrap();
    assert!(!page.starts_over && page.changes.len() == 2, "only what changed: {page:?}");
    follower.follow(&two).await;
    assert_eq!((follower.names(), &*follower.texts["b"]), (vec!["b"], "other"));
    assert_eq!(follower.version, dropped.version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_agree_on_what_is_kept() {
    let server = RedisServer::start();
    nodes_agree(&server.url()).await;
    // It holds no state of keys, and does not expire.
    assert_eq!(server.command(&["PTTL", "wc{policies}"]).as_int(), -1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_a_cluster_agree() {
    let cluster = Cluster::start(3, 0);
    nodes_agree(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_behind_sentinels_agree() {
    let sentinels = Sentinel::start();
    nodes_agree(&sentinels.url()).await;
}

/// Texts come in pages that no check waits long behind; dropped ones are forgotten after a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_read_in_pages() {
    let server = RedisServer::start();
    let store = node(&server.url()).await;
    let mut follower = Follower::default();
    let text = "x".repeat(MAX_KEPT_TEXT);
    for at in 0..20 {
        store.keep_policy(&format!("long{at}"), &text).await.unwrap();
    }
    for at in 0..300 {
        store.keep_policy(&format!("short{at}"), "x").await.unwrap();
    }
    follower.follow(&store).await;
    assert_eq!((follower.texts.len(), follower.started_over), (320, 1));
    assert!((6..=12).contains(&follower.pages), "{}", follower.pages);
    let before = follower.pages;
    follower.follow(&store).await;
    assert_eq!(follower.pages, before + 1);

    let mut behind = Follower { texts: follower.texts.clone(), ..Follower::default() };
    behind.version = follower.version;
    for at in 0..1_100 {
        let name = format!("gone{at}");
        store.keep_policy(&name, "x").await.unwrap();
        store.drop_kept_policy(&name).await.unwrap();
    }
    assert!(server.command(&["ZCARD", "wc{policies}:order"]).as_int() <= 320 + 1_001);
    behind.follow(&store).await;
    assert_eq!((behind.texts == follower.texts, behind.started_over), (true, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_is_bounded() {
    let server = RedisServer::start();
    let store = node(&server.url()).await;
    store.keep_policy("first", "x").await.unwrap();
    // As if there were more.
    let set = |field: &str, number: usize| {
        server.command(&["HSET", "wc{policies}", field, &number.to_string()]);
    };
    set("#count", MAX_KEPT_POLICIES);
    let full = store.keep_policy("more", "x").await.unwrap_err();
    assert_eq!(full, StoreError::KeptFull("more".to_owned()));
    assert!(store.keep_policy("first", "y").await.unwrap().is_change(), "in another's place");
    set("#count", 1);
    set("#bytes", 16 * 1_024 * 1_024);
    assert!(store.keep_policy("more", "x").await.is_err());
    let long = "x".repeat(MAX_KEPT_TEXT + 1);
    assert!(matches!(store.keep_policy("a", &long).await, Err(StoreError::Unfit(_))));
}

/// A server that lost its state gives no version twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_go_on_after_a_loss() {
    let server = RedisServer::start();
    let store = node(&server.url()).await;
    store.keep_policy("a", "x").await.unwrap();
    let known = store.keep_policy("b", "x").await.unwrap().version;
    server.command(&["FLUSHALL"]);
    let lost = store.kept_policies(known).await.unwrap();
    assert_eq!((lost.version, lost.changes.len()), (0, 0));
    assert!(store.keep_policy("c", "x").await.unwrap().version > known);
    let page = store.kept_policies(0).await.unwrap();
    assert!(page.starts_over && page.changes.len() == 1, "{page:?}");
}

/// The rights that the guide lists are enough; without them nothing is kept, and checks go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_right_still_checks() {
    let server = RedisServer::start();
    let let_in = |rights: &str| {
        let mut command = vec!["ACL", "SETUSER", "guest", "reset", "on", ">sesame"];
        command.extend(rights.split(' '));
        server.command(&command).unwrap();
    };
    let url = format!("redis://guest:sesame@{}", server.addr());
    let_in(&format!("{LEAST} +zadd +zrange +zrem +zcard"));
    let store = node(&url).await;
    store.keep_policy("a", "x").await.unwrap();
    store.drop_kept_policy("a").await.unwrap();
    store.keep_policy("b", "x").await.unwrap();
    assert_eq!(store.kept_policies(0).await.unwrap().changes.len(), 2);

    let_in(LEAST);
    let store = node(&url).await;
    let policy = waterclock::Policy::new("p", [waterclock::Limit::per_hour(1_000)]).unwrap();
    store.set_policy(policy).await.unwrap();
    for _ in 0..30 {
        let error = store.keep_policy("c", "x").await.unwrap_err();
        assert_eq!(error.failure(), Some(Failure::Auth), "{error}");
        assert_eq!(store.kept_policies(0).await.unwrap_err().failure(), Some(Failure::Auth));
    }
    assert!(store.check("p", "k").await.unwrap().is_allowed());
    assert!(!store.is_degraded());
    assert_eq!(server.command(&["HGET", "wc{policies}", "#count"]).as_text(), "1");
    // What no one has ever kept needs no more rights than a check.
    server.command(&["FLUSHALL"]);
    assert_eq!(store.kept_policies(0).await.unwrap().version, 0);
}

//! A policy changes, and what was spent stays spent, in Redis.

use tokio::task::JoinSet;
use tokio::time::sleep;
use waterclock::{FixedWindow, Gcra, Limit, Policy, RollingWindow, SlidingWindow, Source, Store};
use waterclock_conformance::real::RedisServer;

use crate::scene::{HOUR, PATIENT, asking, check, keys, millis, remaining, store, units};

const CALLERS: u64 = 16;

/// So many an hour, of each kind.
fn hourly(kind: &str, limit: u64) -> Policy {
    let limit: Limit = match kind {
        "gcra" => Gcra::new(limit, HOUR).unwrap().into(),
        "fixed" => FixedWindow::new(limit, HOUR).unwrap().into(),
        "aligned" => FixedWindow::aligned(limit, HOUR).unwrap().into(),
        "sliding" => SlidingWindow::new(limit, HOUR).unwrap().into(),
        "rolling" => RollingWindow::new(limit, HOUR).unwrap().into(),
        _ => panic!("{kind}"),
    };
    Policy::new("p", [limit]).unwrap()
}

/// Changes an exhausted policy again and again; what is left each time, and how much more passes.
async fn left_after(kind: &str, limits: &[u64]) -> Vec<u64> {
    let server = RedisServer::start();
    let store = store(asking(&server.url()).deadline(PATIENT), hourly(kind, 100)).await;
    assert!(check(&store, units("key", 100)).await.decision.is_allowed());
    let mut left = Vec::new();
    for &limit in limits {
        store.set_policy(hourly(kind, limit)).await.unwrap();
        left.push(remaining(&store, "key").await);
        let all = check(&store, units("key", limit)).await;
        assert_eq!((all.source, all.decision.is_allowed()), (Source::Authoritative, false));
        assert_eq!(keys(&server).len(), 1, "one record per key");
        let expires = server.command(&[b"PTTL", &*keys(&server)[0]]).as_int();
        assert!(expires > 0, "{expires}");
    }
    left
}

/// A policy of each kind: 100 are spent. Raised to 1000 there are 900 left, and so on.
macro_rules! carries {
    ($($kind:ident),*) => {$(
        mod $kind {
            use super::left_after;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn raised() {
                assert_eq!(left_after(stringify!($kind), &[1_000]).await, [900]);
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn changed_twice_and_back_again() {
                let left = left_after(stringify!($kind), &[1_000, 150, 100, 1_000]).await;
                assert_eq!(left, [900, 50, 0, 900]);
            }
        }
    )*};
}

carries!(gcra, fixed, aligned, sliding, rolling);

/// Two policy changes before the next check: the record of the first definition is still found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_twice_unseen() {
    for kind in ["gcra", "fixed", "sliding", "rolling"] {
        let server = RedisServer::start();
        let store = store(asking(&server.url()).deadline(PATIENT), hourly(kind, 100)).await;
        assert!(check(&store, units("key", 100)).await.decision.is_allowed());
        store.set_policy(hourly(kind, 500)).await.unwrap();
        store.set_policy(hourly(kind, 1_000)).await.unwrap();
        assert!(check(&store, units("key", 900)).await.decision.is_allowed(), "{kind}");
        assert_eq!(remaining(&store, "key").await, 0, "{kind}");
    }
}

/// Callers check during the change. A caller that uses the old definition after the key was
/// carried over finds a fresh one: beyond the limit there is what was under way, not a limit more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_under_load() {
    for kind in ["gcra", "fixed", "sliding", "rolling"] {
        let server = RedisServer::start();
        let store = store(asking(&server.url()).deadline(PATIENT), hourly(kind, 100)).await;
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let store = store.clone();
            callers.spawn(async move {
                let mut granted = 0;
                for _ in 0..60 {
                    granted += check(&store, units("key", 1)).await.decision.granted();
                }
                granted
            });
        }
        let limits = [200, 300, 400, 500];
        for limit in limits {
            sleep(millis(3)).await;
            store.set_policy(hourly(kind, limit)).await.unwrap();
        }
        let granted: u64 = callers.join_all().await.into_iter().sum();
        let left = remaining(&store, "key").await;
        let under_way = CALLERS * limits.len() as u64;
        assert!(granted + left >= 500, "{kind}: {granted} and {left} left");
        assert!(granted <= 500 + under_way, "{kind}: {granted}");
    }
}

//! One server, a store in memory.

use serde_json::json;
use tempfile::TempDir;
use waterclock::Store;
use waterclock::store::MAX_KEPT_POLICIES;

use super::{ask, at_work, capacity, check, delete, file, get, left, metrics, of, put};
use crate::at_work::AtWork;
use crate::reload::Scene;

#[tokio::test]
async fn a_policy_is_set_changed_and_deleted() {
    let (_server, mut client) = at_work(&file("")).await;
    assert_eq!(check(&mut client, "code", "k", 1).await.status, 404);
    let created = put(&mut client, "code", &of(5)).await;
    assert_eq!((created.status, created.json()["result"] == "created"), (201, true), "{created:?}");
    assert_eq!(check(&mut client, "code", "k", 3).await.status, 200);
    let again = put(&mut client, "code", &of(5)).await;
    assert_eq!((again.status, again.json()["result"] == "unchanged"), (200, true), "{again:?}");
    assert_eq!(left(&mut client, "code", "k").await, Ok(2));
    let replaced = put(&mut client, "code", &of(10)).await;
    assert_eq!((replaced.status, replaced.json()["result"] == "replaced"), (200, true));
    assert_eq!(left(&mut client, "code", "k").await, Ok(7), "what was spent stays spent");

    let described = get(&mut client, "code").await.json();
    assert_eq!((&described["origin"], &described["definition"]), (&json!("store"), &of(10)));
    assert_eq!(described["limits"][0]["capacity"], 10, "{described}");
    let described = get(&mut client, "file").await.json();
    assert_eq!((&described["origin"], described.get("definition")), (&json!("file"), None));
    let all = ask(&mut client, "reader", "GET", "/v1/policies", "").await.json();
    let names: Vec<_> = all["policies"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["code", "file"], "{all}");
    assert!(metrics(&mut client).await.contains("policy=\"code\""));
    let keys = ask(&mut client, "reader", "GET", "/v1/keys", "").await.json();
    let shares = keys["policies"].as_array().unwrap();
    assert!(shares.iter().all(|p| p["guaranteed_keys"] == shares[0]["guaranteed_keys"]), "{keys}");

    let deleted = delete(&mut client, "code").await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    assert_eq!(left(&mut client, "code", "k").await, Err(404));
    assert_eq!(get(&mut client, "code").await.status, 404);
    assert_eq!(delete(&mut client, "code").await.status, 404);
    assert!(!metrics(&mut client).await.contains("policy=\"code\""), "its labels are freed");
    put(&mut client, "code", &of(10)).await;
    assert_eq!(left(&mut client, "code", "k").await, Ok(10), "and its keys");
}

/// Names may need to be escaped in a path, and errors are one sentence.
#[tokio::test]
async fn bad_policies_are_explained() {
    let (_server, mut client) = at_work(&file("")).await;
    let cases = [
        ("{", "the body must be the policy as JSON"),
        ("[]", "must be an object with `limits`"),
        (r#"{"limits":["5/m"],"mod":"nary"}"#, "unknown key `mod`"),
        (r#"{"limits":["5/x"]}"#, "unknown period"),
        (r#"{"limits":[{"algorithm":"gcra","limt":1,"per":"1s"}]}"#, "`limt`"),
    ];
    for (body, part) in cases {
        let refused = ask(&mut client, "root", "PUT", "/v1/policies/p", body).await;
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(refused.status, 400, "{body}: {detail}");
        assert!(detail.contains(part) && !detail.contains('\n'), "{body}: {detail}");
    }
    let long = json!({ "limits": ["5/m"], "exempt": ["x".repeat(17_000)] });
    let refused = put(&mut client, "p", &long).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("16384 bytes"), "{}", refused.body);
    let named = put(&mut client, "no%20name", &of(1)).await;
    assert_eq!(named.status, 400);
    assert!(named.body.contains("no name"), "{}", named.body);
    assert_eq!(get(&mut client, "p").await.status, 404);
    assert!(!metrics(&mut client).await.contains("policy=\"p\""), "no label of what was refused");
}

#[tokio::test]
async fn only_administrators_write() {
    let (_server, mut client) = at_work(&file("")).await;
    let body = of(1).to_string();
    for token in ["checker", "reader"] {
        for method in ["PUT", "DELETE"] {
            let answer = ask(&mut client, token, method, "/v1/policies/p", &body).await;
            assert_eq!(answer.status, 403, "{token} {method}");
        }
    }
    assert_eq!(ask(&mut client, "checker", "GET", "/v1/policies/file", "").await.status, 403);
    let (_server, mut open) = at_work("[policies.file]\nlimits = [\"1/s\"]").await;
    assert_eq!(open.send("PUT", "/v1/policies/p", &[], &body).await.status, 401);
}

/// A policy of the file wins; the one of the same name that is kept applies again when the file drops it.
#[tokio::test]
async fn the_file_wins() {
    let scene = Scene::new(&file("")).await;
    let mut client = scene.server.http().await;
    let taken = put(&mut client, "file", &of(9)).await;
    assert_eq!(taken.status, 409);
    assert!(taken.json()["detail"].as_str().unwrap().contains("configuration file"), "{taken:?}");
    assert_eq!(delete(&mut client, "file").await.status, 409);

    assert_eq!(put(&mut client, "code", &of(5)).await.status, 201);
    assert_eq!(check(&mut client, "code", "k", 2).await.status, 200);
    let with_code = format!("{}[policies.code]\nlimits = [{}]\n", file(""), capacity(4));
    scene.write("waterclock.toml", &with_code);
    scene.generation(2).await;
    assert_eq!(left(&mut client, "code", "k").await, Ok(2), "spent stays spent");
    let described = get(&mut client, "code").await.json();
    assert_eq!((&described["origin"], &described["definition"]), (&json!("file"), &of(5)));
    assert_eq!(put(&mut client, "code", &of(7)).await.status, 409);
    scene.write("waterclock.toml", &file(""));
    scene.generation(3).await;
    assert_eq!(left(&mut client, "code", "k").await, Ok(3), "the one that is kept applies again");
    assert_eq!(get(&mut client, "code").await.json()["origin"], "store");

    // One that is hidden can be deleted; the file's stays.
    scene.write("waterclock.toml", &with_code);
    scene.generation(4).await;
    assert_eq!(delete(&mut client, "code").await.status, 200);
    assert_eq!(left(&mut client, "code", "k").await, Ok(2));
    scene.write("waterclock.toml", &file(""));
    scene.generation(5).await;
    assert_eq!(left(&mut client, "code", "k").await, Err(404));
}

/// Policies and what was spent under them are in the snapshot.
#[tokio::test]
async fn a_restart_forgets_nothing() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("waterclock.toml");
    std::fs::write(&path, file("[store]\nsnapshot = \"state\"\n")).unwrap();
    let server = AtWork::serving_file(&path).await;
    let mut client = server.http().await;
    let given = json!({ "limits": of(5)["limits"], "tiers": { "pro": { "factor": 0.5 } } });
    assert_eq!(put(&mut client, "code", &given).await.status, 201);
    assert_eq!(check(&mut client, "code", "k", 3).await.status, 200);
    server.running.stop().await;

    let server = AtWork::serving_file(&path).await;
    let mut client = server.http().await;
    assert_eq!(left(&mut client, "code", "k").await, Ok(2));
    assert_eq!(get(&mut client, "code").await.json()["definition"], given);
    assert_eq!(put(&mut client, "code", &given).await.json()["result"], "unchanged");
    assert_eq!(delete(&mut client, "code").await.status, 200);
    server.running.stop().await;

    let server = AtWork::serving_file(&path).await;
    assert_eq!(left(&mut server.http().await, "code", "k").await, Err(404));
}

/// The share of memory of each policy shrinks with every one that is added.
#[tokio::test]
async fn they_count_as_policies_in_memory() {
    let (_server, mut client) = at_work(&file("[store]\nmax_keys = 100_000\n")).await;
    let guaranteed = async |client: &mut crate::client::Client| {
        let keys = ask(client, "reader", "GET", "/v1/keys", "").await.json();
        keys["policies"][0]["guaranteed_keys"].as_u64().unwrap()
    };
    let alone = guaranteed(&mut client).await;
    for at in 0..9 {
        assert_eq!(put(&mut client, &format!("p{at}"), &of(1)).await.status, 201);
    }
    let shared = guaranteed(&mut client).await;
    assert!(shared * 9 <= alone, "{alone} {shared}");
    for at in 0..9 {
        assert_eq!(delete(&mut client, &format!("p{at}")).await.status, 200);
    }
    assert_eq!(guaranteed(&mut client).await, alone);
}

/// One more than the store keeps is turned down, and leaves nothing behind.
#[tokio::test]
async fn no_more_than_the_store_keeps() {
    let (server, mut client) = at_work(&file("")).await;
    assert_eq!(put(&mut client, "first", &of(1)).await.status, 201);
    let store = server.running.server().engine.store();
    for at in 1..MAX_KEPT_POLICIES {
        store.keep_policy(&format!("p{at}"), "{}").await.unwrap();
    }
    let full = put(&mut client, "more", &of(1)).await;
    assert_eq!(full.status, 507, "{}", full.body);
    assert!(full.body.contains("at most 10000 policies"), "{}", full.body);
    assert_eq!(left(&mut client, "more", "k").await, Err(404));
    assert!(!metrics(&mut client).await.contains("policy=\"more\""));
    assert_eq!(put(&mut client, "first", &of(2)).await.json()["result"], "replaced");
    store.drop_kept_policy("p1").await.unwrap();
    assert_eq!(put(&mut client, "more", &of(1)).await.status, 201);
}

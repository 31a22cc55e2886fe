//! Policies given at run time.

mod memory;
mod resp;
mod shared;

use serde_json::{Value, json};

use crate::at_work::{AtWork, auth};
use crate::client::{Answer, Client};

/// Tokens, and a store or none.
fn file(store: &str) -> String {
    let tokens = auth(&[("checker", "check"), ("reader", "read"), ("root", "admin")]);
    format!("{tokens}\n{store}\n[policies.file]\nlimits = [{}]\n", capacity(3))
}

/// A limit that hardly refills during a test.
fn capacity(units: u64) -> String {
    format!("{{ algorithm = \"gcra\", limit = 1, per = \"1d\", capacity = {units} }}")
}

/// A policy of one such limit.
fn of(units: u64) -> Value {
    json!({ "limits": [{ "algorithm": "gcra", "limit": 1, "per": "1d", "capacity": units }] })
}

async fn ask(client: &mut Client, token: &str, method: &str, path: &str, body: &str) -> Answer {
    client.send(method, path, &[&format!("authorization: Bearer {token}")], body).await
}

async fn put(client: &mut Client, policy: &str, body: &Value) -> Answer {
    ask(client, "root", "PUT", &format!("/v1/policies/{policy}"), &body.to_string()).await
}

async fn delete(client: &mut Client, policy: &str) -> Answer {
    ask(client, "root", "DELETE", &format!("/v1/policies/{policy}"), "").await
}

async fn get(client: &mut Client, policy: &str) -> Answer {
    ask(client, "reader", "GET", &format!("/v1/policies/{policy}"), "").await
}

async fn check(client: &mut Client, policy: &str, key: &str, cost: u64) -> Answer {
    let body = json!({ "policy": policy, "key": key, "cost": cost }).to_string();
    ask(client, "checker", "POST", "/v1/check", &body).await
}

/// What is left of a key; the status if it cannot be told.
async fn left(client: &mut Client, policy: &str, key: &str) -> Result<u64, u16> {
    let body = json!({ "policy": policy, "key": key, "cost": 0 }).to_string();
    let answer = ask(client, "checker", "POST", "/v1/peek", &body).await;
    match answer.status {
        200 => Ok(answer.json()["remaining"].as_u64().expect("a number")),
        status => Err(status),
    }
}

async fn metrics(client: &mut Client) -> String {
    ask(client, "reader", "GET", "/metrics", "").await.body
}

/// A server and a connection to it.
async fn at_work(text: &str) -> (AtWork, Client) {
    AtWork::with_client(text).await
}

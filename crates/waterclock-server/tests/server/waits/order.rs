//! First come, first served, in memory and on Redis.

use std::sync::{Arc, Mutex};

use waterclock_conformance::real::RedisServer;

use super::{Resp, SLOW, answered, body, check, eventually_in_line, in_line, spend};
use crate::at_work::AtWork;
use crate::patience::{LONG, eventually};

/// A unit in 300 ms.
const PACED: &str = r#"
[policies.paced]
limits = [{ algorithm = "gcra", limit = 10, per = "3s", capacity = 10 }]
"#;

/// The first wants much and the others little; none of them passes it. Callers of both protocols stand in one line.
async fn admitted_in_order(server: &AtWork) {
    let mut client = server.http().await;
    spend(&mut client, "paced", 10).await;
    let done = Arc::new(Mutex::new(Vec::new()));
    let mut callers = Vec::new();
    for n in 0..6_usize {
        let (done, cost) = (Arc::clone(&done), if n == 0 { 5 } else { 1 });
        let (mut http, mut resp) = (server.http().await, Resp::connect(server).await);
        let many = Arc::clone(&done);
        callers.push(tokio::spawn(async move {
            if n % 2 == 0 {
                let answer = http.post("/v1/wait", &body("paced", "k", cost, "60s")).await;
                assert_eq!((answer.status, &answer.json()["granted"]), (200, &cost.into()));
            } else {
                let numbers = resp.ask(&format!("RL.WAIT paced k {cost} 60000")).await;
                assert_eq!((numbers[0], numbers[1], numbers[5]), (1, 10, 1));
            }
            done.lock().unwrap().push(n);
        }));
        eventually("in line, or through", async || {
            in_line(server, "paced") + many.lock().unwrap().len() > n
        })
        .await;
    }
    for caller in callers {
        tokio::time::timeout(LONG, caller).await.expect("is admitted").expect("no panic");
    }
    assert_eq!(*done.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    eventually_in_line(server, "paced", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_come_first_served() {
    let server = AtWork::serving(PACED).await;
    admitted_in_order(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_come_first_served_on_redis() {
    let redis = RedisServer::start();
    let store = format!("[store]\nurl = \"{}\"\ndeadline = \"5s\"\n", redis.url());
    let server = AtWork::serving(&(store + PACED)).await;
    admitted_in_order(&server).await;
}

/// Nothing is before them: both protocols answer at once, and charge.
#[tokio::test]
async fn what_passes_now_is_answered_now() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    let answer = client.post("/v1/wait", &body("slow", "k", 2, "0s")).await;
    assert_eq!((answer.status, &answer.json()["remaining"]), (200, &3.into()), "{}", answer.body);
    let mut resp = Resp::connect(&server).await;
    assert_eq!(resp.ask("RL.WAIT slow k 2 0").await[..3], [1, 5, 1]);
    // A wait that may not wait is a check.
    let refused = client.post("/v1/wait", &body("slow", "k", 2, "0s")).await;
    assert_eq!((refused.status, &refused.json()["refused_by"][0]), (429, &"units".into()));
    assert_eq!(in_line(&server, "slow"), 0);
    let text = client.get("/metrics").await.body;
    for counted in ["outcome=\"allow\",face=\"http\"} 1", "outcome=\"deny\",face=\"http\"} 1"] {
        let line = format!("waterclock_decisions_total{{policy=\"slow\",{counted}");
        assert!(text.contains(&line), "{line}");
    }
}

/// A tier without limits, an exempt key, a blocked one, and a cost of 0.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exceptions_stand_in_no_line() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    spend(&mut client, "slow", 5).await;
    let waiting = super::in_line_after(&server, 0, 2, "60s").await;
    let wait = |key: &str, more: &str| {
        format!(r#"{{"policy":"slow","key":"{key}","within":"60s"{more}}}"#)
    };
    let exempt = client.post("/v1/wait", &wait("root", "")).await;
    assert_eq!((exempt.status, &exempt.json()["source"]), (200, &"policy".into()));
    let blocked = client.post("/v1/wait", &wait("mallory", "")).await;
    assert_eq!((blocked.status, &blocked.json()["retry_after_us"]), (429, &().into()));
    let staff = client.post("/v1/wait", &wait("k", r#","tier":"staff""#)).await;
    assert_eq!(staff.status, 200, "{}", staff.body);
    let nothing = client.post("/v1/wait", &wait("k", r#","cost":0"#)).await;
    assert_eq!(nothing.status, 200, "{}", nothing.body);
    let other_key = client.post("/v1/wait", &wait("l", "")).await;
    assert_eq!(other_key.status, 200, "{}", other_key.body);
    assert_eq!(in_line(&server, "slow"), 1);
    // A check of a tier without limits overtakes no one either.
    let staff = r#"{"policy":"slow","key":"k","tier":"staff"}"#;
    assert_eq!(client.post("/v1/check", staff).await.status, 200);
    // Exempting the key ends the line.
    let admin = server.running.server();
    let plan = admin.engine.plan();
    let policy = plan.policy("slow").unwrap();
    let exempt = waterclock::KeyOverride::new("k", waterclock::Override::Exempt);
    admin.engine.set_override(policy, &exempt).await.unwrap();
    assert_eq!(answered(waiting).await.status, 200);
}

/// Several units, and the part that a policy in partial mode would grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cost_passes_whole() {
    let (server, mut client) = AtWork::with_client(
        r#"
[policies.part]
mode = "partial"
limits = [{ algorithm = "gcra", limit = 1, per = "1s", capacity = 5 }]
[policies.llm]
limits = [
  { name = "requests", algorithm = "gcra", limit = 100, per = "1s" },
  { name = "tokens", algorithm = "gcra", limit = 10, per = "1s", capacity = 30, unit = "tokens" },
]
"#,
    )
    .await;
    spend(&mut client, "part", 4).await;
    let now = client.post("/v1/wait", &body("part", "k", 3, "10ms")).await;
    assert_eq!((now.status, &now.json()["granted"]), (429, &0.into()), "{}", now.body);
    let later = client.post("/v1/wait", &body("part", "k", 3, "60s")).await;
    assert_eq!((later.status, &later.json()["granted"]), (200, &3.into()), "{}", later.body);
    let tokens = |tokens: u64, within: &str| {
        format!(r#"{{"policy":"llm","key":"k","cost":{{"tokens":{tokens}}},"within":"{within}"}}"#)
    };
    assert_eq!(client.post("/v1/wait", &tokens(30, "1s")).await.status, 200);
    let refused = client.post("/v1/wait", &tokens(25, "100ms")).await;
    assert_eq!((refused.status, &refused.json()["refused_by"][0]), (429, &"tokens".into()));
    let passed = client.post("/v1/wait", &tokens(5, "60s")).await;
    assert_eq!((passed.status, &passed.json()["cost"]["tokens"]), (200, &5.into()));
    assert_eq!(in_line(&server, "llm"), 0);
    assert_eq!(client.post("/v1/check", &check("part", "k", 0)).await.status, 200);
}

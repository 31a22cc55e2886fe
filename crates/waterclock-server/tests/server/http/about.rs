//! What the server says about itself.

use crate::at_work::AtWork;

const POLICIES: &str = r#"
[policies.plain]
limits = [{ name = "all", algorithm = "gcra", limit = 1, per = "1h", capacity = 2 }]
"#;

/// The value of a line of metrics.
fn metric(text: &str, line: &str) -> Option<f64> {
    text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
}

#[tokio::test]
async fn healthy_ready_and_described() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    assert_eq!(client.get("/healthz").await.body, "ok\n");
    let ready = client.get("/readyz").await;
    assert_eq!((ready.status, ready.json()["ready"].as_bool()), (200, Some(true)));
    let config = client.get("/v1/config").await.json();
    assert_eq!(config["generation"], 1);
    assert_eq!(config["last_reload"]["success"], true);
}

#[tokio::test]
async fn every_metric_under_its_name() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let check = r#"{"policy":"plain","key":"very-secret-key"}"#;
    for _ in 0..3 {
        client.post("/v1/check", check).await;
    }
    let text = client.get("/metrics").await.body;
    let decided = |outcome: &str| {
        let line = format!(
            "waterclock_decisions_total{{policy=\"plain\",outcome=\"{outcome}\",face=\"http\"}}"
        );
        metric(&text, &line)
    };
    assert_eq!((decided("allow"), decided("deny")), (Some(2.0), Some(1.0)));
    assert_eq!((decided("shadow_deny"), decided("error")), (Some(0.0), Some(0.0)));
    assert_eq!(
        metric(&text, "waterclock_decision_duration_seconds_count{face=\"http\"}"),
        Some(3.0)
    );
    assert_eq!(metric(&text, "waterclock_keys{policy=\"plain\"}"), Some(1.0));
    assert_eq!(metric(&text, "waterclock_policy_limit{policy=\"plain\",limit=\"all\"}"), Some(2.0));
    assert_eq!(metric(&text, "waterclock_config_generation"), Some(1.0));
    assert_eq!(metric(&text, "waterclock_config_last_reload_success"), Some(1.0));
    assert_eq!(metric(&text, "waterclock_degraded{mode=\"local\"}"), Some(0.0));
    assert_eq!(metric(&text, "waterclock_connections{face=\"http\"}"), Some(1.0));
    for name in [
        "waterclock_store_duration_seconds",
        "waterclock_store_errors",
        "waterclock_evictions",
        "waterclock_snapshot_failures",
        "waterclock_reservations",
        "waterclock_waiting",
        "waterclock_shed",
        "waterclock_auth_failures",
        "waterclock_auth_delays",
        "waterclock_connections_closed",
        "waterclock_receive_bytes",
        "waterclock_receive_refused",
    ] {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
    }
    assert!(!text.contains("very-secret-key"), "no key in a metric");
}

/// Every path of the description answers, and with a status that the description knows.
#[tokio::test]
async fn the_description_matches() {
    let (_server, mut client) = AtWork::with_client(POLICIES).await;
    let description = client.get("/openapi.json").await.json();
    // So that there is one to commit and to cancel.
    client.post("/v1/reserve", r#"{"policy":"plain","key":"k","id":"i"}"#).await;
    let paths = description["paths"].as_object().unwrap();
    assert!(paths.len() >= 17, "{}", paths.len());
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let path = path.replace("{policy}", "plain").replace("{key}", "k").replace("{id}", "i");
            let answer = client.send(&method.to_uppercase(), &path, &[], "").await;
            let status = answer.status.to_string();
            assert!(operation["responses"].get(&status).is_some(), "{method} {path}: {status}");
            let is_found = ![404, 405].contains(&answer.status);
            assert!(is_found || answer.body.contains("has no override"), "{method} {path}");
        }
    }
}

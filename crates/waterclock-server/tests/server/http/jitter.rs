//! `Retry-After` is spread; the decision is exact.

use crate::at_work::AtWork;

const POLICY: &str = r#"
[policies.slow]
jitter = "50%"
limits = [{ algorithm = "gcra", limit = 1, per = "1000s" }]
"#;

#[tokio::test]
async fn retry_after_is_spread_and_the_decision_exact() {
    let (_server, mut client) = AtWork::with_client(POLICY).await;
    let check = r#"{"policy":"slow","key":"k"}"#;
    assert_eq!(client.post("/v1/check", check).await.status, 200);
    let mut waits = std::collections::BTreeSet::new();
    for path in ["/v1/check", "/v1/wait", "/v1/authorize?policy=slow&key=k"].repeat(20) {
        let refused = match path {
            "/v1/check" => client.post(path, check).await,
            "/v1/wait" => client.post(path, r#"{"policy":"slow","key":"k","within":"1s"}"#).await,
            _ => client.get(path).await,
        };
        assert_eq!(refused.status, 429, "{}", refused.body);
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((900..=1_500).contains(&wait), "{wait}");
        waits.insert(wait);
        if path != "/v1/authorize?policy=slow&key=k" {
            let exact = refused.json()["retry_after_us"].as_u64().unwrap();
            assert!(exact <= 1_000_000_000 && wait >= exact.div_ceil(1_000_000), "{exact}");
        }
    }
    assert!(waits.len() > 10, "{waits:?}");
    assert_eq!(client.get("/v1/policies/slow").await.json()["jitter"], "50%");
}

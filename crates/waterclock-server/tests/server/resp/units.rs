//! Policies that count several units, in the Redis protocol.

use super::ground::Ground;
use crate::at_work::hurried;

const POLICIES: &str = r#"
[policies.llm]
exempt = ["root"]
limits = [
  { name = "requests", algorithm = "fixed-window", limit = 5, per = "365d", align = "epoch" },
  { name = "tokens", algorithm = "fixed-window", limit = 1000, per = "365d", align = "epoch", unit = "tokens" },
]
[policies.other]
limits = [
  { name = "bytes", algorithm = "fixed-window", limit = 9, per = "365d", align = "epoch", unit = "bytes" },
  { name = "tokens", algorithm = "fixed-window", limit = 9, per = "365d", align = "epoch", unit = "tokens" },
]
[policies.sized]
limits = [{ algorithm = "fixed-window", limit = 1000, per = "365d", align = "epoch", unit = "bytes" }]
"#;

#[test]
fn units_are_named() {
    let ground = Ground::with(POLICIES, hurried());
    let mut client = ground.client();
    assert_eq!(client.numbers("RL.CHECK llm k tokens=800")[..3], [1, 5, 4]);
    assert_eq!(client.numbers("RL.CHECK llm k tokens=300")[..3], [0, 5, 4]);
    assert_eq!(client.numbers("RL.CHECK llm k")[..3], [1, 5, 3]);
    assert_eq!(client.numbers("RL.REFUND llm k tokens=100")[..3], [1, 5, 3]);
    assert_eq!(client.numbers("RL.CHECK llm k requests=2,tokens=300")[..3], [1, 5, 0]);
    assert_eq!(client.numbers("RL.CHECK sized k bytes=400")[..3], [1, 1_000, 600]);
    // Peek and reset need no cost.
    assert_eq!(client.numbers("RL.CHECK other k bytes=9")[..3], [1, 9, 0]);
    assert_eq!(client.numbers("RL.PEEK other k")[..3], [1, 9, 0]);
    assert_eq!(client.numbers("RL.RESET other k")[..3], [1, 9, 9]);
    assert!(client.error("RL.CHECK other k").contains("name them in the cost"));
    for key in ["k", "root"] {
        assert_eq!(
            client.error(&format!("RL.CHECK llm {key} 5")),
            "ERR policy `llm` counts `requests` and `tokens`; name them in the cost"
        );
        assert_eq!(
            client.error(&format!("RL.PEEK llm {key} words=5")),
            "ERR policy `llm` counts `requests` and `tokens`, not `words`"
        );
    }
    assert_eq!(
        client.error("RL.CHECK llm k tokens=many"),
        "ERR a cost is a whole number, or units as in `requests=1,tokens=800`, not `tokens=many`"
    );
    let many: Vec<String> = (0..3_000).map(|n| format!("u{n}=1")).collect();
    let error = client.error(&format!("RL.CHECK llm k {}", many.join(",")));
    assert_eq!(error, "ERR a cost is of at most 16 units");
}

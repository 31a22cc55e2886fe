//! `RL.CHECKS`: several checks, all or nothing.

use serde_json::json;
use waterclock_conformance::real::RedisServer;

use super::client::{Client, Value, command};
use super::ground::Ground;
use crate::at_work::hurried;

const POLICIES: &str = r#"
[policies.login]
limits = [{ name = "burst", algorithm = "gcra", limit = 1, per = "1h", capacity = 5 }]
exempt = ["root"]
[policies.all]
headers = "ietf"
tiers = { pro = { factor = 0.5 } }
limits = [{ name = "hour", algorithm = "fixed-window", limit = 2_000, per = "100d" }]
[policies.part]
mode = "partial"
limits = [{ algorithm = "fixed-window", limit = 4, per = "100d" }]
[policies.llm]
limits = [
  { algorithm = "fixed-window", limit = 9, per = "100d" },
  { name = "tokens", algorithm = "fixed-window", limit = 90, per = "100d", unit = "tokens" },
]
"#;

/// The first three numbers of each line.
fn lines(client: &mut Client, line: &str) -> Vec<[i64; 3]> {
    let words: Vec<&str> = line.split(' ').collect();
    let Value::Array(all) = client.ask(&words) else { panic!("{line} is not answered by lines") };
    let numbers = |value| match value {
        Value::Array(numbers) if numbers.len() == 6 => [0, 1, 2]
            .map(|at| if let Value::Integer(n) = numbers[at] { n } else { panic!("{line}") }),
        other => panic!("{line}: {other:?}"),
    };
    all.into_iter().map(numbers).collect()
}

fn on_both_stores(tell: impl Fn(&mut Client)) {
    tell(&mut Ground::with(POLICIES, hurried()).client());
    let redis = RedisServer::start();
    let store = format!("[store]\nurl = \"{}\"\ndeadline = \"30s\"\n", redis.url());
    tell(&mut Ground::with(&format!("{store}{POLICIES}"), hurried()).client());
}

#[test]
fn all_or_nothing() {
    on_both_stores(|client| {
        let both = "RL.CHECKS 2 login a 3 all x 10";
        assert_eq!(lines(client, both), [[1, 5, 2], [1, 2_000, 1_990]]);
        // The first does not fit again: neither is charged.
        assert_eq!(lines(client, both), [[0, 5, 2], [0, 2_000, 1_990]]);
        assert_eq!(client.numbers("RL.PEEK all x")[2], 1_990);
        // Charges of one key are summed.
        assert_eq!(lines(client, "rl.checks 2 login b 2 login b 4"), [[0, 5, 5]; 2]);
        assert_eq!(lines(client, "rl.checks 2 login b 2 login b 3"), [[1, 5, 0]; 2]);
        assert_eq!(lines(client, "RL.CHECKS 1 llm k requests=1,tokens=80"), [[1, 9, 8]]);
        // What others grant in part is all or nothing here, alone and beside a key that is exempt.
        for line in ["RL.CHECKS 1 part k 5", "RL.CHECKS 2 part k 2 part k 3"] {
            assert!(lines(client, line).iter().all(|line| *line == [0, 4, 4]), "{line}");
        }
        assert_eq!(lines(client, "RL.CHECKS 2 part k 5 login root 1")[0], [0, 4, 4]);
        assert_eq!(client.numbers("RL.PEEK part k 4")[0], 1, "nothing was charged");
        assert_eq!(client.numbers("RL.CHECK part k 5")[5], 4);
    });
}

#[test]
fn options_are_for_all_lines() {
    on_both_stores(|client| {
        let tier = lines(client, "RL.CHECKS 2 all a 1 all b 2 TIER pro");
        assert_eq!(tier, [[1, 4_000, 3_999], [1, 4_000, 3_998]]);
        let words: Vec<&str> = "RL.CHECKS 2 all c 1 all d 2 JSON TIER pro".split(' ').collect();
        let Value::Array(all) = client.ask(&words) else { panic!("lines") };
        let all: Vec<serde_json::Value> = all
            .iter()
            .map(|line| {
                let Value::Bulk(json) = line else { panic!("{line:?}") };
                serde_json::from_slice(json).unwrap()
            })
            .collect();
        assert_eq!((&all[0]["limit"], &all[0]["key"]), (&json!(4_000), &json!("c")));
        assert_eq!((&all[1]["policy"], &all[1]["remaining"]), (&json!("all"), &json!(3_998)));
        assert!(all[0]["headers"]["ratelimit"].as_str().unwrap().contains("r=3999"), "{}", all[0]);
        assert_eq!(all[0]["next_same_us"], 0);
    });
}

#[test]
fn complaints_name_the_line() {
    let ground = Ground::with(POLICIES, hurried());
    let mut client = ground.client();
    for (line, text) in [
        ("RL.CHECKS 2 login a 1 logn b 1", "ERR line 2: there is no policy 'logn'; did you mean"),
        ("RL.CHECKS 2 login a x login b 1", "ERR line 1: the cost must be a whole number, not 'x'"),
        ("RL.CHECKS 1 llm a 1", "ERR line 1: policy `llm` counts"),
        ("RL.CHECKS 0 login a 1", "ERR the number of checks must be from 1 to 1024, not '0'"),
        ("RL.CHECKS 1025 login a 1", "ERR the number of checks must be from 1 to 1024, not '1025'"),
        ("RL.CHECKS login a 1 1", "ERR the number of checks must be from 1 to 1024, not 'login'"),
        ("RL.CHECKS 2 login a 1 login b", "ERR 2 checks are 6 arguments, found 5"),
        ("RL.CHECKS 1 login a 1 JASON", "ERR unknown option 'JASON'"),
        ("RL.CHECKS 1 login a", "ERR wrong number of arguments for 'rl.checks' command"),
    ] {
        let error = client.error(line);
        assert!(error.starts_with(text), "{line}: {error}");
    }
    assert_eq!(client.numbers("RL.PEEK login a")[2], 5, "nothing was charged");
}

fn many(count: usize, rest: &[&str]) -> Vec<String> {
    let mut words = vec!["RL.CHECKS".to_owned(), count.to_string()];
    for n in 0..count {
        words.extend(["all".to_owned(), format!("key-{n}"), "1".to_owned()]);
    }
    words.extend(rest.iter().map(|word| (*word).to_owned()));
    words
}

#[test]
fn as_many_as_there_may_be() {
    let ground = Ground::with(POLICIES, hurried());
    let mut client = ground.client();
    for round in 1..=3 {
        let Value::Array(all) = client.ask(&many(1_024, &["TIER", "pro"])) else { panic!() };
        assert_eq!(all.len(), 1_024);
        let Value::Array(last) = &all[1_023] else { panic!() };
        assert_eq!(last[2], Value::Integer(4_000 - round));
    }
    // Other commands keep their bound, and strangers theirs.
    client.send(&command(&many(1_025, &["TIER", "pro", "JSON", "more"])));
    assert_eq!(client.read(), Value::Error("ERR Protocol error: invalid multibulk length".into()));
}

/// What the checks and their replies take comes out of the receive budget, before anything is charged.
#[test]
fn memory_is_taken_from_the_budget() {
    let budget = "[server]\nmax_receive_bytes = \"4MiB\"\n";
    let ground = Ground::with(&format!("{budget}{POLICIES}"), hurried());
    let mut client = ground.client();
    for _ in 0..3 {
        let Value::Error(busy) = client.ask(&many(1_024, &["JSON"])) else { panic!("no room") };
        assert!(busy.starts_with("BUSY "), "{busy}");
    }
    assert_eq!(client.numbers("RL.PEEK all key-7")[2], 2_000, "nothing was charged");
    // One after the other, they have room.
    for _ in 0..50 {
        let Value::Array(all) = client.ask(&many(100, &["JSON"])) else { panic!("no answer") };
        assert_eq!(all.len(), 100);
    }
    assert_eq!(client.numbers("RL.PEEK all key-7")[2], 1_950);
    let refused = "waterclock_receive_refused_total{face=\"resp\"} 3";
    assert!(ground.metrics().contains(refused), "{}", ground.metrics());
}

//! Policies by the thousand that have no keys: their store has no memory for keys either. Alone in its process, because it
//! looks at the process's memory.

use waterclock::{Limit, ManualClock, MemoryStore, Policy, Store};

const POLICIES: u64 = 10_000;

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("there is a line");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kib * 1_024
}

#[tokio::test]
async fn a_policy_without_keys_costs_2_kib() {
    let store = MemoryStore::new(1_000_000, ManualClock::default());
    let before = resident_bytes();
    for n in 0..POLICIES {
        let policy = Policy::new(&format!("policy-{n:05}"), [Limit::per_hour(5)]).unwrap();
        store.set_policy(policy).await.unwrap();
    }
    let each = resident_bytes().saturating_sub(before) / POLICIES;
    println!("{each} bytes each");
    assert!(each <= 2_048, "{each} bytes for each policy without keys");
    for n in 0..POLICIES {
        assert!(store.check(&format!("policy-{n:05}"), "key").await.unwrap().is_allowed());
    }
    println!("{} bytes each, with a key", resident_bytes().saturating_sub(before) / POLICIES);
}

//! Ten million keys against a cap of one million: memory is bounded, newcomers are served, and keys of which more than
//! half is used are exact. Alone in its process, because it looks at the process's memory.

use waterclock::{KeyedLimiter, Limit, ManualClock};

const CAP: u64 = 1_000_000;

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("there is a line");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    kib * 1_024
}

#[test]
fn ten_million_keys_grow_memory_by_at_most_128_mib() {
    let before = resident_bytes();
    let limiter: KeyedLimiter<u64, _> =
        KeyedLimiter::builder(Limit::per_hour(5)).clock(ManualClock::default()).build();
    for key in 0..CAP {
        assert_eq!(limiter.check_n(&key, 1 + key % 5).remaining(), Some(4 - key % 5));
    }
    let refused = (CAP..11 * CAP).filter(|key| !limiter.check(key).is_allowed()).count();
    assert_eq!(refused, 0, "newcomers were refused");
    for key in (0..CAP).filter(|key| key % 5 >= 2) {
        assert_eq!(limiter.peek(&key).remaining(), Some(4 - key % 5), "key {key} changed");
    }
    assert!(limiter.len() as u64 <= CAP);
    let grown = resident_bytes().saturating_sub(before) >> 20;
    assert!(grown <= 128, "grew by {grown} MiB");
    println!("{} keys, {grown} MiB", limiter.len());
}

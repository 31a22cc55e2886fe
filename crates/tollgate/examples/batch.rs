//! Many checks at once: one clock read, and memory fetched for several keys together. Each key is
//! decided on its own; a batch is fast, not atomic.
//!
//!     cargo run --release -p tollgate --example batch

use std::collections::BTreeMap;

use tollgate::{Clock, KeyedLimiter, Limit, MonotonicClock};

fn main() {
    // Ten packets at once from each sender, then ten per second.
    let per_sender: KeyedLimiter<u64> = KeyedLimiter::new(Limit::per_second(10));

    // A hundred packets that arrived together. Sender 7 is loud.
    let senders: Vec<u64> = (0..100).map(|i| if i % 3 == 0 { 7 } else { i % 10 }).collect();
    let mut tally: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    for (sender, decision) in senders.iter().zip(per_sender.check_batch(&senders)) {
        let (passed, dropped) = tally.entry(*sender).or_default();
        *if decision.is_allowed() { passed } else { dropped } += 1;
    }
    for (sender, (passed, dropped)) in tally {
        println!("sender {sender}: {passed:>2} passed, {dropped:>2} dropped");
    }

    // Why: the same work one by one and in batches, over a million senders.
    let many: Vec<u64> = (0..1_000_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let clock = MonotonicClock::default();
    let fill = per_sender.check_batch(&many).len();
    let start = clock.now().as_nanos();
    let singly = many.iter().filter(|sender| per_sender.check(*sender).is_allowed()).count();
    let middle = clock.now().as_nanos();
    let mut batched = 0;
    per_sender.check_each(&many, |decision| batched += usize::from(decision.is_allowed()));
    let end = clock.now().as_nanos();
    println!("\n{fill} known senders, asked again:");
    println!("one by one  {:>4} ns each, {singly} passed", (middle - start) / 1_000_000);
    println!("in batches  {:>4} ns each, {batched} passed", (end - middle) / 1_000_000);
}

//! Many checks at once: one clock read, and memory fetched for several keys together. Each key is
//! decided on its own; a batch is fast, not atomic.
//!
//!     cargo run --release -p waterclock --example batch

use std::collections::BTreeMap;

use waterclock::{Clock, KeyedLimiter, Limit, MonotonicClock};

/// More than fits into the CPU caches; fewer in a debug build.
const MANY: u64 = if cfg!(debug_assertions) { 200_000 } else { 2_000_000 };

fn main() {
    // Ten packets at once from each sender, then ten per second.
    let per_sender: KeyedLimiter<u64> =
        KeyedLimiter::builder(Limit::per_second(10)).max_keys(4_000_000).build();

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

    // The same senders one by one and in batches.
    let clock = MonotonicClock::default();
    let many: Vec<u64> = (0..MANY).collect();
    println!("\n{} senders, checked twice more:", per_sender.check_batch(&many).len());
    let start = clock.now().as_nanos();
    let singly = many.iter().filter(|sender| per_sender.check(*sender).is_allowed()).count();
    let middle = clock.now().as_nanos();
    // Without a vector: a callback gets each decision.
    let mut batched = 0;
    per_sender.check_each(&many, |decision| batched += usize::from(decision.is_allowed()));
    let end = clock.now().as_nanos();
    println!("one by one {:>5} ns each, {singly} passed", (middle - start) / MANY);
    println!("in batches {:>5} ns each, {batched} passed", (end - middle) / MANY);
}

//! A cost that is known only afterwards: reserve an estimate, then commit the real cost.
//!
//! `cargo run -p waterclock --example reserve`

use waterclock::{KeyedLimiter, Limit};

fn main() {
    let tokens: KeyedLimiter<str> = KeyedLimiter::new(Limit::per_hour(1_000));

    for (prompt, estimate) in [("a short one", 300), ("a long one", 600), ("one too many", 600)] {
        match tokens.reserve_n("alice", estimate) {
            Ok(reservation) => {
                // If it were dropped here, it would stay charged at its estimate.
                let used = generate(prompt);
                reservation.commit(used);
                println!("{prompt}: {estimate} reserved, {used} used");
            }
            Err(refused) => {
                println!("{prompt}: retry in {:?}", refused.retry_after().unwrap_or_default());
            }
        }
    }
    println!("left: {:?}", tokens.peek("alice").remaining());
}

/// Stands for slow work whose cost is known at the end.
fn generate(prompt: &str) -> u64 {
    prompt.len() as u64 * 25
}

//! A cost that is only known afterwards: hold an estimate, then settle the truth.
//!
//! `cargo run -p waterclock --example reserve`

use waterclock::{KeyedLimiter, Limit};

fn main() {
    let tokens: KeyedLimiter<str> = KeyedLimiter::new(Limit::per_hour(1_000));

    for (prompt, estimate) in [("a short one", 300), ("a long one", 600), ("one too many", 600)] {
        match tokens.reserve_n("alice", estimate) {
            Ok(reservation) => {
                // Dropped here, for whatever reason, it would stay charged at its estimate.
                let used = generate(prompt);
                reservation.commit(used);
                println!("{prompt}: {estimate} held, {used} used");
            }
            Err(refused) => {
                println!("{prompt}: come back in {:?}", refused.retry_after().unwrap_or_default());
            }
        }
    }
    println!("left: {:?}", tokens.peek("alice").remaining());
}

/// Whatever takes its time, and then says what it took.
fn generate(prompt: &str) -> u64 {
    prompt.len() as u64 * 25
}

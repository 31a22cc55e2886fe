//! A store: two charges, one atomic decision. The function below works with any other store unchanged.
//!
//!     cargo run -p waterclock --example store

use waterclock::{Charge, Limit, ManualClock, MemoryStore, Policy, Store, StoreError, Verb};

/// Charges the user's budget and the common budget, or neither.
async fn serve(store: &impl Store, user: &str, cost: u64) -> Result<(), StoreError> {
    let charges =
        [Charge::new("per-user", user.as_bytes(), cost), Charge::new("everybody", b"", cost)];
    let answers = store.apply(Verb::Check, &charges).await?;
    // All are allowed, or none is.
    let verdict = if answers[0].decision.is_allowed() { "served " } else { "refused" };
    print!("{user:<5} {cost:>2}  {verdict}");
    for (charge, answer) in charges.iter().zip(&answers) {
        let left = answer.decision.remaining().unwrap_or(0);
        let note = if answer.decision.refused_by().is_empty() { "" } else { " (refused)" };
        print!("  {} has {left:>2} left{note}", charge.policy);
    }
    println!();
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // At most 10,000 keys, of all policies together. The clock stands still: no units return.
    let store = MemoryStore::new(10_000, ManualClock::default());
    store.set_policy(Policy::new("per-user", [Limit::per_minute(10)])?).await?;
    store.set_policy(Policy::new("everybody", [Limit::per_minute(15)])?).await?;

    serve(&store, "alice", 8).await?;
    serve(&store, "alice", 4).await?;
    serve(&store, "bob", 9).await?;
    serve(&store, "bob", 7).await?;

    // A store can fail, for example because of an unknown policy.
    let unknown = [Charge::new("unknown", b"", 1)];
    println!("{}", store.apply(Verb::Peek, &unknown).await.unwrap_err());
    Ok(())
}

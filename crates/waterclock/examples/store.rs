//! The seam between those who ask and where state lives: two charges, one atomic decision. The
//! function below would serve any other store as it is.
//!
//!     cargo run -p waterclock --example store

use waterclock::{Charge, Limit, ManualClock, MemoryStore, Policy, Store, StoreError, Verb};

/// Charges the user and everybody together, or nobody.
async fn serve(store: &impl Store, user: &str, cost: u64) -> Result<(), StoreError> {
    let charges =
        [Charge::new("per-user", user.as_bytes(), cost), Charge::new("everybody", b"", cost)];
    let answers = store.apply(Verb::Check, &charges).await?;
    // All of them are allowed or none is.
    let verdict = if answers[0].decision.is_allowed() { "served " } else { "refused" };
    print!("{user:<5} {cost:>2}  {verdict}");
    for (charge, answer) in charges.iter().zip(&answers) {
        let left = answer.decision.remaining().unwrap_or(0);
        let who = if answer.decision.refused_by().is_empty() { "" } else { " (said no)" };
        print!("  {} has {left:>2} left{who}", charge.policy);
    }
    println!();
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // At most 10 000 keys, of all policies together. The clock stands still: nothing comes back.
    let store = MemoryStore::new(10_000, ManualClock::default());
    store.set_policy(Policy::new("per-user", [Limit::per_minute(10)])?).await?;
    store.set_policy(Policy::new("everybody", [Limit::per_minute(15)])?).await?;

    serve(&store, "alice", 8).await?;
    serve(&store, "alice", 4).await?;
    serve(&store, "bob", 9).await?;
    serve(&store, "bob", 7).await?;

    // A store can fail; a policy it was never given is one way.
    let nobody = [Charge::new("nobody", b"", 1)];
    println!("{}", store.apply(Verb::Peek, &nobody).await.unwrap_err());
    Ok(())
}

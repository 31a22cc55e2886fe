//! Two nodes share one limit: `cargo run -p waterclock-redis --example shared -- redis://localhost`.

use waterclock::{Charge, Limit, Policy, Store, Verb};
use waterclock_redis::RedisStore;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".into());
    let policy = Policy::new("shared-example", [Limit::per_minute(5)])?;
    let nodes = [RedisStore::connect(&url).await?, RedisStore::connect(&url).await?];
    for node in &nodes {
        node.set_policy(policy.clone()).await?;
    }
    for turn in 0..7 {
        let charge = Charge::new("shared-example", b"alice", 1);
        let answer = nodes[turn % 2].apply(Verb::Check, &[charge]).await?.remove(0);
        match answer.decision.is_allowed() {
            true => println!("node {}: allowed, {:?} left", turn % 2, answer.decision.remaining()),
            false => println!("node {}: retry in {:?}", turn % 2, answer.decision.retry_after()),
        }
    }
    Ok(())
}

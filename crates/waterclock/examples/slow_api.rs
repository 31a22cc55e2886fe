//! A client that stays within an API's limit by waiting its turn.
//!
//!     cargo run -p waterclock --features tokio --example slow_api

use std::time::Duration;

use waterclock::{Clock, Limit, Limiter, MonotonicClock};

/// Stands for a request over the network.
async fn fetch(page: u32) -> String {
    tokio::time::sleep(Duration::from_millis(30)).await;
    format!("page {page}")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The API allows 5 calls per second. Capacity 1 spreads them evenly: one every 200 ms. With
    // the default capacity of 5 the first five would go at once.
    let limiter = Limiter::new(Limit::per_second(5).with_capacity(1));

    let clock = MonotonicClock::default();
    let start = clock.now();
    for page in 1..=10 {
        limiter.wait().within(Duration::from_secs(10)).await?;
        let called_ms = (clock.now().as_nanos() - start.as_nanos()) / 1_000_000;
        println!("{called_ms:>5} ms  {}", fetch(page).await);
    }
    println!("ten calls, never more than one in 200 ms, and no sleep() in sight");
    Ok(())
}

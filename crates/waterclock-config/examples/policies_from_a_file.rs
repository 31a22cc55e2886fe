//! Limits of a program in a file: `cargo run -p waterclock-config --example policies_from_a_file [waterclock.toml]`

use waterclock::KeyedLimiter;
use waterclock_config::{Config, english};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = match std::env::args().nth(1) {
        Some(path) => Config::load(path)?,
        None => Config::read("the example", "policies.login.limits = [\"3/m\"]")?,
    };
    for policy in &config.policies {
        println!("{}", english::describe(policy));
        let limiter: KeyedLimiter<String> =
            KeyedLimiter::new(waterclock::Policy::clone(policy.policy()));
        for attempt in 1..=4 {
            println!(
                "  attempt {attempt} of alice: allowed = {}",
                limiter.check("alice").is_allowed()
            );
        }
    }
    Ok(())
}

//! A budget for each user. The key is looked up as `&str`; nothing is allocated for a check.
//!
//!     cargo run -p waterclock --example per_user

use waterclock::{Decision, KeyedLimiter, Limit};

fn say(what: &str, decision: &Decision) {
    let verdict = if decision.is_allowed() { "allowed" } else { "refused" };
    print!("{what:<24} {verdict}, {} left", decision.remaining().unwrap_or(0));
    match decision.retry_after() {
        Some(wait) if wait.is_zero() => println!(),
        Some(wait) => println!(", retry in {} s", wait.as_secs_f64().ceil()),
        None => println!(", never: it is more than a whole budget"),
    }
}

fn main() {
    // 6 per minute, of which 3 may be used at once.
    let per_user: KeyedLimiter<String> = KeyedLimiter::new(Limit::per_minute(6).with_capacity(3));

    for _ in 0..4 {
        say("alice asks", &per_user.check("alice"));
    }
    say("bob asks", &per_user.check("bob"));
    say("bob asks for 2", &per_user.check_n("bob", 2));
    say("carol asks for 4", &per_user.check_n("carol", 4));

    // A peek decides and charges nothing.
    say("would alice pass?", &per_user.peek("alice"));
    // Her request failed because of us: refund it.
    per_user.refund("alice", 1);
    say("after a refund", &per_user.peek("alice"));
    per_user.reset("alice");
    say("after a reset", &per_user.peek("alice"));

    // Carol was refused, so she has no state. Alice was reset, and is dropped with the next sweep.
    per_user.sweep();
    println!("keys with state: {}", per_user.len());
}

//! What a limit could be, by clients: one bot does not set it, and what is advised holds when it is played.

mod clients;
mod numbers;

use std::fmt::Write;

use fastrand::Rng;
use serde_json::Value;

use crate::support::Place;

const BOT: &str = "203.0.113.9";
const OFFICE: &str = "198.51.100.7";

/// A line of a combined log, so many seconds into a day.
fn line(second: u32, client: &str, path: &str, agent: &str) -> String {
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!(
        "{client} - - [08/Nov/2026:{hour:02}:{minute:02}:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 9 \"-\" \"{agent}\"\n"
    )
}

/// Two thousand visitors with up to 30 requests in a few seconds, a bot with 20 requests per second for ten minutes, and
/// an office of many users behind one address.
fn lines() -> Vec<(u32, String)> {
    let mut random = Rng::with_seed(4);
    let mut lines = Vec::new();
    for visitor in 0..2_000_u32 {
        let client = format!("10.0.{}.{}", visitor / 256, visitor % 256);
        let agent = format!("Mozilla/5.0 Chrome/{}", 100 + visitor % 40);
        let start = random.u32(..7_200);
        for request in 0..1 + random.u32(..30) * random.u32(..30) / 30 {
            let second = start + request / 4;
            lines.push((second, line(second, &client, &format!("/page/{request}?x=1"), &agent)));
        }
    }
    for request in 0..12_000 {
        let second = 600 + request / 20;
        lines.push((second, line(second, BOT, "/login", "python-requests/2.31")));
    }
    for _ in 0..3_000 {
        let (second, user) = (random.u32(..7_200), random.u32(..25));
        let agent = format!("Mozilla/5.0 Firefox/{user}");
        lines.push((second, line(second, OFFICE, &format!("/page/{user}"), &agent)));
    }
    lines.sort_by_key(|(second, _)| *second);
    lines
}

fn log() -> String {
    lines().into_iter().map(|(_, line)| line).collect()
}

fn report(place: &Place, flags: &[&str]) -> Value {
    let arguments = [&["replay", "access.log", "--input", "combined", "--json"], flags].concat();
    place.run(&arguments).ok().json()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value}"))
}

/// A trace of random costs by clients of very different demand.
fn trace(seed: u64, clients: u32, largest_cost: u64) -> String {
    let mut random = Rng::with_seed(seed);
    let (mut t_us, mut trace) = (1_700_000_000_000_000_u64, String::new());
    for _ in 0..clients * 12 {
        t_us += random.u64(..40_000);
        let client = random.u32(..clients) * random.u32(..clients) / clients;
        let cost = random.u64(1..=largest_cost);
        writeln!(trace, "{{\"t_us\":{t_us},\"key\":\"c{client}\",\"cost\":{cost}}}").unwrap();
    }
    trace
}

//! Keys that are asked under several tiers, with limits in shadow and partial rollouts: memory and Redis say the
//! same, and a refusal changes nothing.

use std::fmt::Write;

use fastrand::Rng;
use waterclock_conformance::real::RedisServer;

use crate::support::Place;

const WINDOWS: [&str; 3] = ["fixed-window", "sliding-window", "rolling-window"];
const OTHERS: [&str; 5] = ["gcra", "quota", "even-slots", "min-interval", "leaky-bucket"];

fn limit(random: &mut Rng, number: usize, mode: &str) -> String {
    let all: Vec<&str> = match mode {
        "uniform" => WINDOWS.to_vec(),
        _ => WINDOWS.iter().chain(&OTHERS).copied().collect(),
    };
    let algorithm = all[random.usize(..all.len())];
    let mut limit = format!("name = \"l{number}\", algorithm = \"{algorithm}\"");
    match algorithm {
        "min-interval" => write!(limit, ", every = \"{}ms\"", random.u32(1..900)).unwrap(),
        "leaky-bucket" => {
            write!(limit, ", capacity = {}, drip = {}", random.u32(1..9), random.u32(1..5))
                .unwrap();
        }
        _ => {
            let per = [1, 2, 10][random.usize(..3)];
            write!(limit, ", limit = {}, per = \"{per}s\"", random.u32(1..12)).unwrap();
        }
    }
    if algorithm != "min-interval" && random.u8(..5) == 0 {
        write!(limit, ", min_interval = \"{}ms\"", random.u32(1..500)).unwrap();
    }
    if random.u8(..3) == 0 {
        limit.push_str(", shadow = true");
    }
    format!("{{ {limit} }}")
}

fn policy(random: &mut Rng) -> String {
    let mode = ["binary", "binary", "nary", "uniform"][random.usize(..4)];
    let limits: Vec<String> =
        (0..random.usize(1..4)).map(|number| limit(random, number, mode)).collect();
    let rollout = if random.bool() { 100 } else { random.u32(..100) };
    format!(
        "[policies.p]\nmode = \"{mode}\"\nrollout = \"{rollout}%\"\nlimits = [{}]\n\
         tiers = {{ pro = {{ factor = 0.5 }}, staff = {{ factor = 0 }} }}\n",
        limits.join(", ")
    )
}

fn trace(random: &mut Rng) -> String {
    let (mut t_us, mut trace) = (0, String::new());
    for _ in 0..200 {
        t_us += [0, 0, 1_000, random.u64(..300_000)][random.usize(..4)];
        let (key, cost) = (random.u32(..4), [1, 1, 1, 0, 2, 4][random.usize(..6)]);
        let tier = ["", "", ",\"tier\":\"pro\"", ",\"tier\":\"staff\""][random.usize(..4)];
        let op = if random.u8(..20) == 0 { ",\"op\":\"refund\"" } else { "" };
        writeln!(trace, "{{\"t_us\":{t_us},\"key\":\"k{key}\",\"cost\":{cost}{tier}{op}}}")
            .unwrap();
    }
    trace
}

#[test]
fn both_stores_move_a_key_alike() {
    let server = RedisServer::start();
    let mut random = Rng::with_seed(7);
    for number in 0..120 {
        let (config, trace) = (policy(&mut random), trace(&mut random));
        let place = Place::with_config(&config);
        let arguments = ["replay", "--format", "jsonl"];
        let here = place.run_with_input(&arguments, &trace);
        let there =
            place.run_with_input(&[&arguments[..], &["--store", &server.url()]].concat(), &trace);
        assert_eq!(
            (there.code, there.stderr.as_str()),
            (here.code, here.stderr.as_str()),
            "{config}"
        );
        for (here, there) in here.stdout.lines().zip(there.stdout.lines()) {
            assert_eq!(there, here, "policy {number}\n{config}");
        }
    }
}

/// A refusal under one tier leaves the key unchanged for the others, with shadow limits too.
#[test]
fn a_refusal_under_another_tier_changes_nothing() {
    for limits in [
        "{ name = \"s\", algorithm = \"leaky-bucket\", capacity = 4, drip = 1, shadow = true }, \
         { algorithm = \"leaky-bucket\", capacity = 4, drip = 4 }",
        "{ name = \"s\", algorithm = \"gcra\", limit = 5, per = \"1s\", shadow = true }, \"3/10s\"",
        "\"3/10s\", { algorithm = \"even-slots\", limit = 3, per = \"10s\" }",
    ] {
        let place = Place::with_config(&format!(
            "[policies.p]\nlimits = [{limits}]\ntiers = {{ pro = {{ factor = 0.5 }} }}\n"
        ));
        let first = "{\"t_us\":100000,\"key\":\"a\",\"cost\":3}\n";
        let refused = "{\"t_us\":600000,\"key\":\"a\",\"cost\":9,\"tier\":\"pro\"}\n";
        let rest = "{\"t_us\":700000,\"key\":\"a\",\"cost\":2}\n{\"t_us\":1000000,\"key\":\"a\"}\n";
        let with = place.replay(&[first, refused, rest].concat());
        let without = place.replay(&[first, rest].concat());
        assert_eq!(with[1]["allowed"], false, "{limits}");
        assert_eq!(with[2..], without[1..], "{limits}");
    }
}

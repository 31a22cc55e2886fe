//! Files full of odd names and numbers: each becomes a valid configuration, or an error in sentences.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::support::Place;

const FILES: usize = 120;

const TEXTS: [&str; 12] = [
    "login",
    "a b",
    "",
    "ü\u{7}",
    "x\"]\n[policies.y]",
    "#",
    "*",
    "a*",
    "-",
    "generic_key",
    "bucket",
    "a == 'b' && c != 'd'",
];

/// The options of a format, and some that are none.
const OPTIONS: [(&str, &[&str]); 7] = [
    ("sharkey", &["type", "size", "dripRate", "dripSize", "key", "x\n"]),
    ("sharkey", &["max", "duration", "minInterval", "key", "x\n"]),
    ("misskey", &["max", "duration", "minInterval", "key", "x\n"]),
    ("rate-limiter-flexible", &["points", "duration", "keyPrefix", "blockDuration", "x\n"]),
    (
        "express-rate-limit",
        &["windowMs", "limit", "max", "standardHeaders", "legacyHeaders", "identifier", "x\n"],
    ),
    ("limitador", &["namespace", "max_value", "seconds", "name", "conditions", "variables", "x\n"]),
    ("envoy", &["key", "value", "rate_limit", "shadow_mode", "descriptors"]),
];

fn value(rng: &mut Rng) -> Value {
    match rng.u8(0..20) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(-1),
        3 => json!(0),
        4 => json!(0.5),
        5 => json!(1e300),
        6 => json!(u64::MAX),
        7 => json!(rng.choice(TEXTS)),
        8 => json!([rng.choice(TEXTS)]),
        9 => json!({ "unit": "day", "requests_per_unit": rng.u32(0..9) }),
        _ => json!(rng.u32(1..5_000)),
    }
}

/// Mostly the right kind of value, so that most files say something.
fn option(rng: &mut Rng, name: &str) -> Value {
    let texts = ["key", "keyPrefix", "identifier", "namespace", "name", "value"];
    match name {
        _ if rng.u8(0..12) == 0 => value(rng),
        "type" => json!("bucket"),
        "conditions" | "variables" => {
            let many = rng.usize(0..3);
            json!((0..many).map(|_| *rng.choice(&TEXTS).unwrap()).collect::<Vec<&str>>())
        }
        "rate_limit" => json!({ "unit": "day", "requests_per_unit": rng.u32(0..9) }),
        "standardHeaders" => json!("draft-8"),
        "legacyHeaders" | "shadow_mode" => json!(rng.bool()),
        "descriptors" => json!([]),
        name if texts.contains(&name) => json!(rng.choice(TEXTS)),
        _ => json!(rng.u32(1..5_000)),
    }
}

fn limiter(rng: &mut Rng, options: &[&str]) -> Value {
    let mut fields = Map::new();
    for name in options {
        if rng.u8(0..5) > 0 {
            fields.insert((*name).to_owned(), option(rng, name));
        }
    }
    Value::Object(fields)
}

fn file(rng: &mut Rng, format: &str, options: &[&str]) -> Value {
    let many = rng.usize(1..5);
    let all: Vec<Value> = (0..many).map(|_| limiter(rng, options)).collect();
    match format {
        "envoy" => json!({ "domain": rng.choice(TEXTS), "descriptors": all }),
        "limitador" => json!(all),
        _ if rng.bool() => json!(all),
        _ => {
            let named =
                all.into_iter().map(|limiter| (rng.choice(TEXTS).unwrap().to_owned(), limiter));
            Value::Object(named.collect())
        }
    }
}

#[test]
fn a_valid_configuration_or_a_sentence() {
    let mut rng = Rng::with_seed(0x0dd5);
    for (format, options) in OPTIONS {
        let mut valid = 0;
        for _ in 0..FILES {
            let text = file(&mut rng, format, options).to_string();
            let place = Place::new().file("f", &text);
            let run = place.run(&["import", "f", "--from", format]);
            if run.code == Some(0) {
                let place = place.file("waterclock.toml", &run.stdout);
                let checked = place.run(&["validate"]);
                assert_eq!(checked.code, Some(0), "{}\n{text}\n{}", checked.stderr, run.stdout);
                valid += 1;
            } else {
                assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{text}");
                assert!(!run.stderr.contains("panicked"), "{text}\n{}", run.stderr);
                assert!(run.stderr.trim().contains(' '), "{text}\n{}", run.stderr);
            }
        }
        assert!((10..FILES).contains(&valid), "{format}: {valid} of {FILES} files were valid");
    }
}

//! The old three-number limits, as `validate --json` shows them.

use serde_json::{Value, json};

use crate::support::{Place, cases};

fn told(numbers: &str) -> Value {
    let place =
        Place::with_limits(&format!("{{ algorithm = \"legacy\", name = \"old\"{numbers} }}"));
    let run = place.run(&["validate", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.json()["policies"]["p"]["limits"].clone()
}

fn bucket(capacity: u64, drip: u64, every_us: u64) -> Value {
    json!({ "name": "old", "algorithm": "leaky-bucket", "capacity": capacity, "drip": drip, "every_us": every_us })
}

fn with_gap(mut bucket: Value, min_interval_us: u64) -> Value {
    bucket["min_interval_us"] = json!(min_interval_us);
    bucket
}

#[test]
fn translated() {
    assert_eq!(told(", max = 10, duration = 1000"), json!([bucket(10, 1, 100_000)]));
    assert_eq!(told(", max = 10, duration = \"1s\""), json!([bucket(10, 1, 100_000)]));
    assert_eq!(told(", max = 3, duration = 1000"), json!([bucket(3, 1, 333_000)]));
    assert_eq!(
        told(", max = 10, duration = 1000, min_interval = 200"),
        json!([with_gap(bucket(10, 2, 200_000), 200_000)])
    );
    assert_eq!(
        told(", max = 10, duration = 1000, min_interval = 0"),
        json!([bucket(10, 1, 100_000)])
    );
    assert_eq!(told(", min_interval = 250"), json!([bucket(1, 1, 250_000)]));
}

#[test]
fn disabled() {
    for numbers in
        ["", ", max = 5", ", duration = 1000", ", max = 5, duration = 0", ", min_interval = 0"]
    {
        assert_eq!(told(numbers), json!([]), "{numbers}");
    }
}

/// Numbers of an old limit, each with the complaint about them.
const WRONG: &str = r#"
max = 0, duration = 1000
=> `max` must be at least 1; found 0
max = -3, duration = 1000
=> `max` must not be negative; found -3
max = 3, duration = -1
=> `duration` must not be negative; found -1
max = 3, duration = 1000, min_interval = -1
=> `min_interval` must not be negative; found -1
max = 3, duration = nan
=> `duration` must be a finite number of at most 18 digits; found nan
max = 3, duration = 1000, limit = 3
=> `limit` does not belong to `legacy`, which takes `max`, `duration`, `min_interval`, `size`, `drip_rate` and `drip_size`
max = 3, duration = 1000, minIntervall = 3
=> unknown key `minIntervall` in a `legacy` limit; did you mean `min_interval`?
max = 3, duration = 1000, minInterval = 3, min_interval = 3
=> `minInterval` is `min_interval`; remove one of them
max = 3, duration = 1000, minInterval = -1
=> `minInterval` must not be negative; found -1
size = 1, dripRate = 0.9
=> `dripRate` must be at least 1; found 0.9
size = 1, dripSize = inf
=> `dripSize` must be a finite number of at most 18 digits; found inf
size = 1, type = "window"
=> `type` must be `bucket`; found "window"
size = 1, name = "a", key = "b"
=> `key` is the limit's `name` here; remove one of them
type = "bucket"
=> a `legacy` limit needs `size`, such as 10
size = 0.5
=> `size` must be at least 1; found 0.5
size = 0
=> `size` must be at least 1; found 0
size = -1
=> `size` must not be negative; found -1
size = nan
=> `size` must be a finite number of at most 18 digits; found nan
size = inf
=> `size` must be a finite number of at most 18 digits; found inf
size = 1, drip_rate = 0.9
=> `drip_rate` must be at least 1; found 0.9
size = 1, drip_rate = "1us"
=> `drip_rate` must be at least 1 ms; found "1us"
size = 1, drip_size = 0
=> `drip_size` must be at least 1; found 0
size = 1, drip_size = -inf
=> `drip_size` must not be negative; found -inf
drip_rate = 100
=> a `legacy` limit needs `size`, such as 10
size = 1, max = 5
=> `max` cannot be used with `size`; an old limit has `max` and `duration`, or `size`
"#;

#[test]
fn wrong() {
    for (numbers, expected) in cases(WRONG) {
        let run = Place::with_limits(&format!("{{ algorithm = \"legacy\", {numbers} }}"))
            .run(&["validate"]);
        assert_eq!(run.code, Some(2), "{numbers}");
        assert!(run.stderr.trim_end().ends_with(expected), "{numbers}: {}", run.stderr);
    }
}

/// Definitions exactly as they stand in Misskey and Sharkey, without `algorithm`.
#[test]
fn as_they_stand() {
    let gap = |bucket: Value, gap_us: u64| with_gap(bucket, gap_us);
    for (definition, expected) in [
        ("{ duration = 3600000, max = 300 }", bucket(300, 1, 12_000_000)),
        ("{ max = 10, duration = 1000, minInterval = 200 }", gap(bucket(10, 2, 200_000), 200_000)),
        ("{ minInterval = 250 }", bucket(1, 1, 250_000)),
        ("{ type = \"bucket\", size = 10 }", bucket(10, 1, 1_000_000)),
        ("{ type = \"bucket\", size = 10, dripRate = 100, dripSize = 2 }", bucket(10, 2, 100_000)),
        ("{ size = 2.2, dripRate = 99.5, dripSize = 1.01 }", bucket(3, 2, 100_000)),
        // Half up to milliseconds, and at least one.
        ("{ minInterval = 0.4 }", bucket(1, 1, 1_000)),
        ("{ minInterval = 0.00004 }", bucket(1, 1, 1_000)),
        ("{ minInterval = 1.4999999 }", bucket(1, 1, 1_000)),
        ("{ minInterval = 1.5 }", bucket(1, 1, 2_000)),
        ("{ max = 10, duration = 1000, minInterval = 0.4 }", gap(bucket(10, 1, 100_000), 1_000)),
    ] {
        let named = definition.replace('{', "{ key = \"old\",");
        let run = Place::with_limits(&named).run(&["validate", "--json"]);
        assert_eq!(run.code, Some(0), "{definition}: {}", run.stderr);
        assert_eq!(run.json()["policies"]["p"]["limits"], json!([expected]), "{definition}");
        // Without a name, it is called after what it is.
        let run = Place::with_limits(definition).run(&["validate", "--json"]);
        assert_eq!(run.json()["policies"]["p"]["limits"][0]["name"], "legacy");
    }
    // A limit of ours that forgets its algorithm is not one of these.
    for limit in
        ["{ limit = 5, duration = \"1s\" }", "{ min_interval = 5 }", "{ size = 5, per = \"1s\" }"]
    {
        let run = Place::with_limits(limit).run(&["validate"]);
        assert!(run.stderr.contains("needs `algorithm`"), "{limit}: {}", run.stderr);
    }
}

/// An old definition by a factor of `num / den`, and what it comes to. The formulas are those of the sites it
/// comes from, in their own units: milliseconds, and numbers that are rounded as JavaScript rounds.
struct Old {
    numbers: &'static str,
    /// `(max, duration, min_interval)`, or `(size, drip_rate, drip_size)`.
    shape: Shape,
    factor: (u64, u64),
}

enum Shape {
    Three(f64, f64, Option<f64>),
    Bucket(f64, f64, f64),
}

fn round(number: f64) -> f64 {
    (number + 0.5).floor()
}

fn whole(number: f64) -> u64 {
    assert!((0.0..1e15).contains(&number) && number.fract() == 0.0, "{number}");
    format!("{number}").parse().unwrap()
}

impl Old {
    /// (capacity, drip, every_us, min_interval_us)
    fn comes_to(&self) -> (u64, u64, u64, Option<u64>) {
        let (size, drip, every_ms, gap) = match self.shape {
            Shape::Three(max, duration, gap) => {
                let i = gap.unwrap_or_else(|| round(duration / max)).max(1.0);
                let d = round(max / (duration / i)).max(1.0);
                let r = round(duration / (max / d)).max(1.0);
                (max, d, r, gap)
            }
            Shape::Bucket(size, rate, drip) => (size.ceil(), drip.ceil(), rate.ceil(), None),
        };
        let (num, den) = self.factor;
        let capacity = (whole(size) * den).div_ceil(num).max(1);
        let us = |ms: f64| (whole(ms) * 1_000 * num).div_ceil(den);
        (capacity, whole(drip), us(every_ms), gap.map(us))
    }
}

fn three(numbers: &'static str, shape: (f64, f64, Option<f64>), factor: (u64, u64)) -> Old {
    Old { numbers, shape: Shape::Three(shape.0, shape.1, shape.2), factor }
}

fn bucket_of(numbers: &'static str, shape: (f64, f64, f64), factor: (u64, u64)) -> Old {
    Old { numbers, shape: Shape::Bucket(shape.0, shape.1, shape.2), factor }
}

#[test]
fn by_a_factor() {
    let hour = 3_600_000.0;
    let all = [
        three("max = 10, duration = 1000", (10.0, 1_000.0, None), (1, 1)),
        three("max = 10, duration = 1000", (10.0, 1_000.0, None), (1, 2)),
        three("max = 10, duration = 1000", (10.0, 1_000.0, None), (3, 1)),
        three("max = 3, duration = 1000", (3.0, 1_000.0, None), (3, 10)),
        three("max = 300, duration = 3_600_000", (300.0, hour, None), (1, 4)),
        three("max = 300, duration = 3_600_000", (300.0, hour, None), (7, 1)),
        three("max = 3000, duration = \"1s\"", (3_000.0, 1_000.0, None), (1, 10)),
        three("max = 7, duration = 60_000", (7.0, 60_000.0, None), (1, 8)),
        three("max = 1, duration = 5", (1.0, 5.0, None), (1, 1_000_000)),
        three("max = 5, duration = 3", (5.0, 3.0, None), (1, 1)),
        three("max = 1, duration = 1000", (1.0, 1_000.0, None), (1_000, 1)),
        three(
            "max = 10, duration = 1000, min_interval = 200",
            (10.0, 1_000.0, Some(200.0)),
            (1, 2),
        ),
        three(
            "max = 10, duration = 5000, min_interval = 1000",
            (10.0, 5_000.0, Some(1_000.0)),
            (11, 10),
        ),
        three(
            "max = 60, duration = 3_600_000, min_interval = 1",
            (60.0, hour, Some(1.0)),
            (1, 1_000),
        ),
        bucket_of("size = 10", (10.0, 1_000.0, 1.0), (1, 1)),
        bucket_of("size = 10", (10.0, 1_000.0, 1.0), (1, 2)),
        bucket_of("size = 10, drip_rate = 250", (10.0, 250.0, 1.0), (3, 1)),
        bucket_of("size = 2.2, drip_rate = 99.5", (2.2, 99.5, 1.0), (11, 10)),
        bucket_of("size = 1, drip_rate = 1, drip_size = 1.01", (1.0, 1.0, 1.01), (1, 10)),
        bucket_of("size = 50, drip_rate = \"1.5ms\", drip_size = 7", (50.0, 1.5, 7.0), (1, 3_125)),
        bucket_of("size = 100, drip_size = 10", (100.0, 1_000.0, 10.0), (5, 4)),
        bucket_of("size = 5, drip_rate = 333", (5.0, 333.0, 1.0), (1, 128)),
        bucket_of("size = 9, drip_rate = 86_400_000", (9.0, 86_400_000.0, 1.0), (10, 1)),
    ];
    let decimal = |(num, den): (u64, u64)| {
        // Every denominator above divides ten million.
        let millionths = num * 10_000_000 / den;
        assert_eq!(millionths * den, num * 10_000_000);
        format!("{}.{:07}", millionths / 10_000_000, millionths % 10_000_000)
    };
    let text: String = all
        .iter()
        .enumerate()
        .map(|(at, old)| {
            let (factor, numbers) = (decimal(old.factor), old.numbers);
            format!(
                "[policies.p{at}]\nfactor = {factor}\nlimits = [{{ algorithm = \"legacy\", {numbers} }}]\n"
            )
        })
        .collect();
    let run = Place::with_config(&text).run(&["validate", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let policies = &run.json()["policies"];
    for (at, old) in all.iter().enumerate() {
        let limit = &policies[format!("p{at}")]["limits"][0];
        let number = |name: &str| limit[name].as_u64();
        let found = (number("capacity"), number("drip"), number("every_us"));
        let (capacity, drip, every_us, gap_us) = old.comes_to();
        assert_eq!(found, (Some(capacity), Some(drip), Some(every_us)), "{at}: {}", old.numbers);
        assert_eq!(number("min_interval_us"), gap_us, "{at}: {}", old.numbers);
    }
}

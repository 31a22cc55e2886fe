//! A report with something in every section, and traffic to replay.

use std::fmt::Write;

use jiff::Timestamp;
use serde_json::{Value, json};

/// Midnight of a day in 2026, UTC.
pub(super) const MIDNIGHT_US: u64 = 1_790_035_200_000_000;
pub(super) const BIN_US: u64 = 180_000_000;
const BINS: u64 = 480;

/// A client that is a program, one that is an address shared by many, and one whose name is hostile.
pub(super) const KEYS: [&str; 3] =
    ["198.51.100.23", "203.0.113.200", "<img src=x onerror=\"window.pwned=1\">\u{202e}gnp.exe"];

/// How many checks there are in a bin, and how many of them two limits refuse; none of them at night.
fn bin(at: u64) -> (u64, [u64; 2]) {
    let day = at.abs_diff(BINS / 2);
    let offered = 40 + (BINS / 2 - day) / 3;
    match at {
        150..190 => (offered + 120, [70, 30 + at % 7]),
        300..340 => (offered + 60, [at % 13, 40]),
        _ => (offered, [0, 0]),
    }
}

pub(super) fn report() -> Value {
    let bins: Vec<Value> = (0..BINS)
        .map(|at| {
            let (offered, refused_by) = bin(at);
            // Some are refused by both.
            let refused = refused_by[0].max(refused_by[1]) + refused_by[0].min(refused_by[1]) / 2;
            json!({ "t_us": MIDNIGHT_US + at * BIN_US, "offered": offered, "allowed": offered - refused,
                    "refused_by": [refused_by[0], refused_by[1], 0], "shadow_refused_by": [0, 0, refused_by[0] / 2] })
        })
        .collect();
    let (mut report, json) = (json!({ "timeline": { "bin_us": BIN_US, "bins": bins } }), about());
    for (name, value) in json.as_object().expect("an object") {
        report[name] = value.clone();
    }
    let (offered, allowed) = (super::sum(&report, "offered"), super::sum(&report, "allowed"));
    (report["checks"], report["allowed"]) = (json!(offered), json!(allowed));
    report["refused"] = json!(offered - allowed);
    report
}

fn about() -> Value {
    let client = |at: usize, refused: u64, kind: Option<&str>| {
        let bins: Vec<Value> = (150..190).map(|bin| json!([bin, 20 + at, refused / 40])).collect();
        json!({ "key": KEYS.get(at).map_or_else(|| format!("192.0.2.{at}"), |key| (*key).to_owned()),
                "checks": 2_000 + refused, "refused": refused, "shadow_refused": 7, "refused_by": [refused, refused / 2, 0],
                "first_us": MIDNIGHT_US, "last_us": MIDNIGHT_US + BINS * BIN_US, "kind": kind,
                "first_refused_us": (refused > 0).then_some(MIDNIGHT_US + 150 * BIN_US),
                "last_refused_us": (refused > 0).then_some(MIDNIGHT_US + 189 * BIN_US),
                "longest_retry_after_us": (refused > 0).then_some(95_000_000), "bins": bins,
                "paths": [["/login", 900], ["<script>window.pwned=1</script>", 3]], "distinct_paths": 12,
                "agents": [["curl/8.5.0", 903]], "distinct_agents": 1 })
    };
    let mut clients = vec![
        client(0, 3_200, Some("one-agent")),
        client(1, 800, Some("many-agents")),
        client(2, 40, None),
    ];
    clients.extend((3..30).map(|at| client(at, 0, None)));
    let point = |limit: u64, clients: u64, checks: u64| {
        json!({ "limit": limit, "words": format!("{limit}/min"), "clients_refused": clients, "checks_refused": checks,
                "toml": format!("{{ name = \"burst\", algorithm = \"gcra\", limit = {limit}, per = \"1m\" }}"),
                "kinds": { "one_agent": clients / 2, "many_agents": clients / 4, "unknown": 0 } })
    };
    let points = [
        point(10, 400, 30_000),
        point(30, 60, 9_000),
        point(60, 4, 700),
        point(120, 1, 300),
        point(240, 0, 0),
    ];
    json!({
        "suggestion": "burst from 30/min to 60/min: refuses 4 of 1,000 clients, not 60",
        "toml": "[policies.web]\nlimits = [\n  { name = \"burst\", limit = 60 },\n]\n",
        "headline": "6.4 % refused; 3 of 1,000 clients; 79 % of it one address",
        "source": "access.log", "policy": "web", "in_part": 0, "shadow_refused": 900,
        "from_us": MIDNIGHT_US, "until_us": MIDNIGHT_US + BINS * BIN_US,
        "refused_by": { "burst": 2_900, "hourly": 2_930, "watch": 0 },
        "shadow_refused_by": { "burst": 0, "hourly": 0, "watch": 1_400 }, "blocked": 0,
        "keys": 1_000, "keys_refused": 3, "clients": 1_000, "clients_refused": 3,
        "limits": [{ "name": "burst", "words": "30/min, capacity 5", "shadow": false },
                   { "name": "hourly", "words": "600/h", "shadow": false },
                   { "name": "watch", "words": "20/min", "shadow": true }],
        "top_clients": clients,
        "advice": [{ "limit": "burst", "sentence": "apart from one outlier, 99 % of clients never exceed 60/min",
                     "outliers": { "clients": 1, "rule": "set aside: clients far above all others", "largest": { "key": KEYS[2], "needs": "1,200/min" } },
                     "percentiles": [{ "clients_percent": 99.0, "limit": 60, "words": "60/min", "toml": "{ name = \"burst\", limit = 60 }" },
                                     { "clients_percent": 100.0, "limit": 120, "words": "120/min", "toml": null }] }],
        "curves": [{ "limit": "burst", "current": 1, "start": 2, "clients": 1_000, "checks": 50_000, "points": points }],
        "remarks": [{ "message": "times are whole seconds" }],
    })
}

/// An access log of most of a day: many people, a scraper, and guesses at a password.
pub(super) fn access_log() -> String {
    let mut random = fastrand::Rng::with_seed(11);
    let mut lines: Vec<(u64, String)> = Vec::new();
    let mut visit = |second: u64, address: &str, path: &str, agent: &str| {
        let t_us =
            i64::try_from(MIDNIGHT_US + second * 1_000_000).expect("before the year 200,000");
        let time = Timestamp::from_microsecond(t_us).expect("a date");
        let time = time.strftime("%d/%b/%Y:%H:%M:%S +0000");
        lines.push((
            second,
            format!("{address} - - [{time}] \"GET {path} HTTP/1.1\" 200 512 \"-\" \"{agent}\""),
        ));
    };
    let agents = [
        "Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Firefox/131.0",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/130.0",
    ];
    let paths = ["/", "/search", "/products", "/products/17", "/cart", "/login"];
    for second in 0..72_000_u64 {
        let busy = 1.1 + (second as f64 / 72_000.0 * std::f64::consts::TAU - 1.6).sin();
        while random.f64() < busy * 0.3 {
            let person = random.u32(..900);
            let address = format!("192.0.{}.{}", 2 + person / 250, person % 250);
            visit(second, &address, paths[random.usize(..6)], agents[person as usize % 3]);
        }
        if (26_000..31_500).contains(&second) && random.f64() < 0.9 {
            let page = format!("/products?page={}", second % 40);
            visit(second, "198.51.100.23", &page, "python-requests/2.32");
        }
        if (52_000..55_000).contains(&second) && random.f64() < 0.5 {
            visit(second, "203.0.113.9", "/login", "curl/8.5.0");
        }
        if (40_000..66_000).contains(&second) && random.f64() < 0.17 {
            visit(second, "203.0.113.200", paths[random.usize(..6)], agents[random.usize(..3)]);
        }
    }
    lines.sort();
    lines.into_iter().fold(String::new(), |mut log, (_, line)| {
        _ = writeln!(log, "{line}");
        log
    })
}

pub(super) const OLD: &str = r#"
[policies.web]
key = ["client_ip"]
limits = [
  { name = "burst", algorithm = "gcra", limit = 30, per = "1m", capacity = 10 },
  { name = "hourly", algorithm = "rolling-window", limit = 600, per = "1h" },
]
"#;

pub(super) const NEW: &str = r#"
[policies.web]
key = ["client_ip"]
limits = [
  { name = "burst", algorithm = "gcra", limit = 60, per = "1m", capacity = 20 },
  { name = "hourly", algorithm = "rolling-window", limit = 600, per = "1h" },
  { name = "daily", algorithm = "rolling-window", limit = 1500, per = "1d" },
]
"#;

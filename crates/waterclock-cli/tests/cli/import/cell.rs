//! Counts of redis-cell, moved to a running server.

use waterclock_conformance::real::{Connection, RedisServer, Reply};

use crate::serve::process::Serving;
use crate::support::{Place, Run};

const HOUR_US: u64 = 3_600_000_000;
/// A capacity of 15, of which one returns every hour: no test takes as long.
const NUMBERS: [&str; 3] = ["14", "1", "3600"];
/// What a test may take, in seconds.
const SLACK: i64 = 900;

/// A Redis with keys of redis-cell, and a server to move them to.
struct Scene {
    redis: RedisServer,
    serving: Serving,
    throttle: Connection,
}

impl Scene {
    fn new() -> Scene {
        Scene::with_config("")
    }

    fn with_config(config: &str) -> Scene {
        let config = format!("{config}[policies.p]\nlimits = [\"1/s\"]\n");
        let start = ["serve", "-c", "waterclock.toml"];
        let token = [("SERVED_TOKEN", "t0ken")];
        let serving = Serving::start_with(Place::with_config(&config), &start, &token);
        let port = serving.url("resp").rsplit(':').next().unwrap().parse().unwrap();
        let throttle = Connection::open(port).unwrap();
        Scene { redis: RedisServer::start(), serving, throttle }
    }

    /// What redis-cell leaves behind: an arrival time in nanoseconds, and an expiry at the same time.
    fn put(&self, key: &str, full_in_us: u64) {
        let time = self.redis.command(&["TIME"]);
        let [seconds, micros] = [0, 1].map(|at| text(&time.as_array()[at]).parse::<u64>().unwrap());
        let arrival_ns = (seconds * 1_000_000 + micros + full_in_us) * 1_000;
        let expiry_ms = (full_in_us / 1_000).to_string();
        self.redis.command(&["SET", key, &arrival_ns.to_string(), "PX", &expiry_ms]);
    }

    fn import(&self, more: &[&str]) -> Run {
        let (redis, to) = (self.redis.url(), self.serving.url("resp"));
        let arguments = ["import", "redis-cell", "--redis", &redis, "--to", &to];
        self.serving.place().run(&[&arguments, more].concat())
    }

    /// The five numbers of `CL.THROTTLE`.
    fn throttle(&mut self, key: &str, quantity: &str) -> [i64; 5] {
        let [max_burst, count, period] = NUMBERS;
        let command = ["CL.THROTTLE", key, max_burst, count, period, quantity];
        let reply = self.throttle.command(&command).unwrap();
        let Reply::Array(numbers) = reply else { panic!("{reply:?}") };
        let numbers: Vec<i64> = numbers
            .iter()
            .map(|number| match number {
                Reply::Int(number) => *number,
                other => panic!("{other:?}"),
            })
            .collect();
        numbers.try_into().unwrap()
    }
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    }
}

const SUMMARY: &str = "used as much or more already";

/// redis-cell: what is left is the time to the capacity, in whole intervals; a refusal waits for the difference.
#[track_caller]
fn assert_continues(scene: &mut Scene, key: &str, full_in_us: u64) {
    let used_s = i64::try_from(full_in_us / 1_000_000).unwrap();
    let left = 15 - i64::try_from(full_in_us.div_ceil(HOUR_US)).unwrap();
    let about = |found: i64, expected: i64| (expected - SLACK..=expected + 1).contains(&found);
    let peek = scene.throttle(key, "0");
    assert_eq!(peek[..4], [0, 15, left, -1], "{key}");
    assert!(about(peek[4], used_s), "{key}: {peek:?}");
    let check = scene.throttle(key, "1");
    if left > 0 {
        assert_eq!(check[..4], [0, 15, left - 1, -1], "{key}");
        assert!(about(check[4], used_s + 3_600), "{key}: {check:?}");
    } else {
        assert_eq!(check[..3], [1, 15, 0], "{key}");
        assert!(about(check[3], used_s + 3_600 - 15 * 3_600), "{key}: {check:?}");
        assert!(about(check[4], used_s), "{key}: {check:?}");
    }
}

/// Half an hour, so that no interval ends during the test; the last one is exhausted.
const CASES: [(&str, u64); 4] = [
    ("alice", HOUR_US / 2),
    ("user:7", 5 * HOUR_US + HOUR_US / 2),
    ("with space", 13 * HOUR_US + HOUR_US / 2 + 1),
    ("exhausted", 14 * HOUR_US + HOUR_US / 2),
];

#[test]
fn keys_go_on_where_they_were() {
    let mut scene = Scene::new();
    for (key, full_in_us) in CASES {
        scene.put(key, full_in_us);
    }
    let run = scene.import(&[]).ok();
    assert_eq!(
        run.stdout,
        format!("4 imported, 0 {SUMMARY}, 0 full again, 0 not of redis-cell, 0 failed\n")
    );
    for (key, full_in_us) in CASES {
        assert_continues(&mut scene, key, full_in_us);
    }
    assert_eq!(scene.throttle("unknown", "0")[..3], [0, 15, 15]);
}

#[test]
fn the_same_on_a_redis_store() {
    let store = RedisServer::start();
    let config = format!("[store]\nurl = \"{}\"\ndeadline = \"5s\"\n", store.url());
    let mut scene = Scene::with_config(&config);
    for (key, full_in_us) in CASES {
        scene.put(key, full_in_us);
    }
    scene.import(&[]).ok();
    for (key, full_in_us) in CASES {
        assert_continues(&mut scene, key, full_in_us);
    }
}

#[test]
fn importing_again_changes_nothing() {
    let mut scene = Scene::new();
    scene.put("old", 5 * HOUR_US + HOUR_US / 2);
    scene.import(&[]).ok();
    // Used since then: more than in the old Redis.
    assert_eq!(scene.throttle("old", "3")[..3], [0, 15, 6]);
    let run = scene.import(&[]).ok();
    assert_eq!(
        run.stdout,
        format!("0 imported, 1 {SUMMARY}, 0 full again, 0 not of redis-cell, 0 failed\n")
    );
    assert_eq!(scene.throttle("old", "0")[..3], [0, 15, 6]);
    // Used less than in the old Redis: only the difference is charged.
    assert_eq!(scene.throttle("both", "2")[..3], [0, 15, 13]);
    scene.put("both", 5 * HOUR_US + HOUR_US / 2);
    let summary = scene.import(&["--json"]).ok().json();
    assert_eq!(
        summary,
        serde_json::json!({"imported": 1, "kept": 1, "full": 0, "other": 0, "failed": 0})
    );
    assert_continues(&mut scene, "both", 5 * HOUR_US + HOUR_US / 2);
}

#[test]
fn only_arrival_times_are_imported() {
    let mut scene = Scene::new();
    scene.put("alice", 3 * HOUR_US);
    let long = "x".repeat(1_025);
    scene.put(&long, HOUR_US);
    for command in [
        &["SET", "counter", "17", "EX", "900"][..],
        &["SET", "forever", "2000000000000000000"],
        &["SET", "other-expiry", "2000000000000000000", "EX", "900"],
        &["SET", "text", "not a number, and longer than one", "EX", "900"],
        &["HSET", "hash", "a", "1"],
        &["RPUSH", "list", "a"],
    ] {
        scene.redis.command(command);
    }
    let run = scene.import(&[]);
    assert_eq!(
        run.stdout,
        format!("1 imported, 0 {SUMMARY}, 0 full again, 6 not of redis-cell, 1 failed\n")
    );
    assert_eq!(run.code, Some(1));
    run.warns("a key must be at most 1024 bytes long; found 1025");
    assert_eq!(scene.throttle("alice", "0")[2], 12);
    for key in ["counter", "forever", "text"] {
        assert_eq!(scene.throttle(key, "0")[2], 15, "{key}");
    }
    let run = scene.import(&["--match", "nobody*"]).ok();
    assert!(run.stdout.starts_with("0 imported, 0 "), "{}", run.stdout);
}

#[test]
fn more_keys_than_fit_into_a_batch() {
    let mut scene = Scene::new();
    for number in 0..2_345 {
        scene.put(&format!("key:{number}"), 5 * HOUR_US + HOUR_US / 2);
    }
    let run = scene.import(&["--match", "key:*"]).ok();
    assert!(run.stdout.starts_with("2,345 imported, 0 "), "{}", run.stdout);
    for number in [0, 1_234, 2_344] {
        assert_eq!(scene.throttle(&format!("key:{number}"), "0")[2], 9);
    }
}

#[test]
fn a_dry_run_prints_the_commands() {
    let mut scene = Scene::new();
    scene.put("al\"ice\n", 5 * HOUR_US + HOUR_US / 2);
    let redis = scene.redis.url();
    let place = Place::new();
    let alone = place.run(&["import", "redis-cell", "--redis", &redis, "--dry-run"]).ok();
    let beside = scene.import(&["--dry-run"]).ok();
    for run in [alone, beside] {
        let quantity =
            run.stdout.strip_prefix("CL.THROTTLE \"al\\\"ice\\x0a\" 3155759999999999 1000000 1 ");
        let quantity: u64 = quantity.unwrap().trim_end().parse().unwrap();
        let most = 5 * HOUR_US + HOUR_US / 2;
        assert!((most - u64::try_from(SLACK).unwrap() * 1_000_000..=most).contains(&quantity));
    }
    assert_eq!(scene.throttle("al\"ice\n", "0")[2], 15);
}

/// A user of Redis that may only read is enough.
#[test]
fn redis_is_only_read() {
    let mut scene = Scene::new();
    scene.put("alice", 3 * HOUR_US);
    let reader = [
        "ACL",
        "SETUSER",
        "reader",
        "on",
        ">p@ss",
        "~*",
        "+scan",
        "+getrange",
        "+pttl",
        "+time",
        "+select",
    ];
    scene.redis.command(&reader);
    let url = scene.redis.url().replace("redis://", "redis://reader:${SECRET}@") + "/0";
    let to = scene.serving.url("resp");
    let arguments = ["import", "redis-cell", "--redis", &url, "--to", &to];
    let run = scene.serving.place().run_with(&[("SECRET", "p%40ss")], &arguments).ok();
    assert!(run.stdout.starts_with("1 imported"), "{}", run.stdout);
    assert_eq!(scene.throttle("alice", "0")[2], 12);
    let wrong = scene.serving.place().run_with(&[("SECRET", "guess")], &arguments);
    wrong.fails("WRONGPASS");
    assert!(!wrong.stderr.contains("guess"), "{}", wrong.stderr);
    scene
        .serving
        .place()
        .run(&arguments)
        .fails("--redis: the environment variable SECRET is not set");
}

#[test]
fn errors_say_which_server() {
    let scene = Scene::new();
    scene.put("alice", 3 * HOUR_US);
    let (redis, to, http) =
        (scene.redis.url(), scene.serving.url("resp"), scene.serving.url("http"));
    let place = Place::new();
    let run =
        |redis: &str, to: &str| place.run(&["import", "redis-cell", "--redis", redis, "--to", to]);
    run(&redis, &http)
        .warns("only the Redis protocol answers this; write redis://HOST:PORT instead of");
    run(&redis, &redis).fails("is not a waterclock server: it does not know CL.THROTTLE");
    run("redis://127.0.0.1:1", &to)
        .fails("redis://127.0.0.1:1: cannot be reached: connection refused; check the address\n");
    run(&redis, "redis://127.0.0.1:1").fails("redis://127.0.0.1:1: cannot be reached");
    place.run(&["import", "redis-cell", "--redis", &redis]).warns("--to");
}

#[test]
fn a_server_with_tokens() {
    let config = "[server]\nauth = [{ token = \"${SERVED_TOKEN}\", roles = [\"check\"] }]\n";
    let scene = Scene::with_config(config);
    scene.put("alice", 3 * HOUR_US);
    scene.import(&[]).fails("put the token into WATERCLOCK_TOKEN or a file for --token-file");
    let place = Place::new().file("token", "t0ken\n");
    let (redis, to, token) = (scene.redis.url(), scene.serving.url("resp"), place.path("token"));
    let arguments =
        ["import", "redis-cell", "--redis", &redis, "--to", &to, "--token-file", &token];
    assert!(place.run(&arguments).ok().stdout.starts_with("1 imported"));
}

//! Every mistake gets a sentence that says what, where and what instead.

use crate::support::{Place, cases};

/// The first line on standard error, after `waterclock.toml:`.
fn complaint(config: &str) -> String {
    let run = Place::with_config(config).run(&["validate"]);
    assert_eq!(run.code, Some(2), "{config}\n{}", run.stdout);
    assert_eq!(run.stdout, "", "{config}");
    let first = run.stderr.lines().next().unwrap_or_default();
    first.strip_prefix("waterclock.toml:").unwrap_or(first).to_owned()
}

/// Files, each with the complaint about it.
const FILES: &str = r#"
[sever]
=> 1:2: unknown key `sever` in the file; did you mean `server`?
[policy.login]
limits = ["1/s"]
=> 1:2: unknown key `policy` in the file; did you mean `policies`?
[policies]
p = "10/s"
=> 2:5: policy `p` must be a table with `limits`; found "10/s"
[policies.p]
limits = "10/s"
=> 2:10: `limits` must be an array; write ["10/s"]
[policies.p]
limits = { algorithm = "gcra" }
=> 2:10: `limits` must be an array; write [{ … }]
[policies.p]
limits = 3
=> 2:10: `limits` must be an array; found 3
policies = 3
=> 1:12: `policies` must be a table; found 3
[policies."log in"]
limits = ["1/s"]
=> 1:11: the name of a policy must be 1 to 64 of A-Z, a-z, 0-9, `_`, `.`, `/`, `:` and `-`, and not `.` or `..`; found "log in"
[policies."@throttle"]
limits = ["1/s"]
=> 1:11: the name of a policy must be 1 to 64 of A-Z, a-z, 0-9, `_`, `.`, `/`, `:` and `-`, and not `.` or `..`; found "@throttle"
[policies.".."]
limits = ["1/s"]
=> 1:11: the name of a policy must be 1 to 64 of A-Z, a-z, 0-9, `_`, `.`, `/`, `:` and `-`, and not `.` or `..`; found ".."
[policies."api.v1"]
limits = ["1/s"]
[policies.api]
limits = [{ name = "v1.gcra", algorithm = "gcra", limit = 1, per = "1s" }]
=> 3:11: limit `v1.gcra` of policy `api` and a limit of policy `api.v1` are both `api.v1.gcra` in response headers; rename one of them
[policies.p]
limits = ["1/s"]
tiers = { "a@b" = { factor = 1 } }
=> 3:11: the name of a tier must not contain `@`; found "a@b"
[policies.p]
limits = ["1/s"]
default_tier = "free"
=> 3:16: `default_tier` needs `tiers` to choose from; found "free"
[policies.p]
limits = ["1/s"]
tiers = { free = { factor = 2 }, pro = { factor = 0.5 } }
default_tier = "fre"
=> 4:16: `default_tier` must be one of `tiers`, `free` or `pro`; found "fre"; did you mean `free`?
[defaults]
limits = ["1/s"]
=> 2:1: unknown key `limits` in `[defaults]`
[defaults]
header = "ietf"
[policies.p]
limits = ["1/s"]
=> 2:1: unknown key `header` in `[defaults]`; did you mean `headers`?
[defaults]
headers = "iet"
[policies.p]
limits = ["1/s"]
[policies.q]
limits = ["1/s"]
=> 2:11: `headers` must be `none`, `retry-after`, `ietf`, `draft-10`, `draft-03`, `github` or `legacy`; found "iet"; did you mean `ietf`?
[defaults]
mode = "uniform"
[policies.p]
limits = ["1/s"]
=> 4:11: `gcra` cannot be used with mode = "count-refusals" ("uniform"); only `fixed-window`, `sliding-window` and `rolling-window` count refused attempts
[defaults]
tiers = { pro = { factor = 0.5 } }
default_tier = "free"
=> 3:16: `default_tier` must be one of `tiers`, `pro`; found "free"
[defaults]
tiers = { huge = { factor = 0.000000001 } }
[policies.p]
limits = ["65536/h rolling-window"]
=> 2:29: policy `p`: limit `rolling-window` cannot be scaled by 0.000000001: an exact rolling window holds at most 65536 units; give `buckets` to bound its memory
[policies.p]
mode = "nary"
=> 1:1: policy `p` needs `limits`, such as ["10/s"]
[policies.p]
limits = []
=> 2:10: `limits` must hold 1 to 16 limits; found 0
[policies.p]
limits = ["1/s"]
mod = "nary"
=> 3:1: unknown key `mod` in policy `p`; did you mean `mode`?
[policies.p]
limits = ["1/s"]
mode = "binry"
=> 3:8: `mode` must be `binary`, `nary`, `uniform`, `partial` or `count-refusals`; found "binry"; did you mean `binary`?
[policies.p]
limits = ["1/s"]
mode = "uniform"
=> 2:11: `gcra` cannot be used with mode = "count-refusals" ("uniform"); only `fixed-window`, `sliding-window` and `rolling-window` count refused attempts
[policies.p]
limits = ["1/s"]
rollout = "101%"
=> 3:11: `rollout` must be from "0%" to "100%" with at most two decimals; found "101%"
[policies.p]
limits = ["1/s"]
jitter = 10
=> 3:10: `jitter` must be from "0%" to "100%" with at most two decimals; found 10
[policies.p]
limits = ["1/s"]
tiers = { a = { factor = -1 } }
=> 3:26: `factor` must not be negative; found -1
[policies.p]
limits = ["1/s"]
overrides = { a = ["1/x"] }
=> 3:20: unknown period "x"; use s, m, h, d, w or a duration such as 1h30m
[policies.p]
limits = ["1/s"]
lease = { size = 1 }
=> 3:9: `lease` needs `ttl`, such as "1s"
[policies.p]
limits = ["1/s"]
lease = "often"
=> 3:9: `lease` must be "auto" or a table; found "often"
[policies.p]
limits = ["1/s"]
on_store_error = "deny"
local_for = "30s"
=> 4:13: `local_for` belongs to `on_store_error = "local"`, which is "deny" here; remove one of them
[store]
url = "mysql://x"
=> 2:7: `url` must be "memory:", or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://; found "mysql://x"
[store]
url = "mysql://me:hunter2@x"
=> 2:7: `url` must be "memory:", or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://; found "mysql://…@x"
[store]
url = "redis://:${PASSWORD@x"
=> 2:7: `url` must name environment variables as `${NAME}`
[store]
url = "file:"
=> 2:7: `url` must name a file after `file:`
[store]
key_secret = "${}"
=> 2:14: `key_secret` must name environment variables as `${NAME}`
[store]
url = "redis-cluster://:hunter2@x"
ca = "ca.pem"
=> 3:6: `ca` is for a store with TLS; write rediss-cluster:// instead of redis-cluster://
[store]
max_keys = 0
=> 2:12: `max_keys` must be at least 1; found 0
[server]
http = "0.0.0.0:80"
=> 2:8: `http` listens beyond this machine without `auth`; add `auth`, ask clients for certificates with `client_ca`, or set `allow_unauthenticated = true`
[server]
tls = { cert = "c" }
=> 2:7: `tls` needs `key`, such as "key.pem"
[server]
trusted_proxies = ["10.0.0.0/33"]
=> 2:20: `trusted_proxies` must hold networks such as "10.0.0.0/8" or "fd00::/8"; found "10.0.0.0/33"
[server]
auth = [{ token = "hunter2", roles = ["check"] }]
=> 2:19: `token` must be "sha256:…", "${ENV}" or "file:…", so that the file holds no secret
[server]
auth = [{ token = "file:t", roles = ["chek"] }]
=> 2:38: `roles` must be `check`, `read` or `admin`; found "chek"; did you mean `check`?
"#;

#[test]
fn files() {
    for (config, expected) in cases(FILES) {
        assert_eq!(complaint(&config), expected, "{config}");
    }
}

/// Limits of a policy, each with the complaint about them.
const LIMITS: &str = r#"
{ limit = 1, per = "1s" }
=> 2:11: a limit needs `algorithm`, such as "gcra"
{ algorithm = "gcra", limit = 1 }
=> 2:11: a `gcra` limit needs `per`, such as "1s"
{ algorithm = "even-slots", per = "1s" }
=> 2:11: an `even-slots` limit needs `limit`, such as 10
{ algorithm = "leaky-bucket" }
=> 2:11: a `leaky-bucket` limit needs `capacity`, such as 10
{ algorithm = "min-interval" }
=> 2:11: a `min-interval` limit needs `every`, such as "1s"
{ algorithm = "gcrra", limit = 1, per = "1s" }
=> 2:25: unknown algorithm "gcrra"; did you mean `gcra`?
{ algorithm = "rolling-windw" }
=> 2:25: unknown algorithm "rolling-windw"; did you mean `rolling-window`?
{ algorithm = "magic" }
=> 2:25: unknown algorithm "magic"; it must be `gcra`, `token-bucket`, `leaky-bucket`, `fixed-window`, `sliding-window`, `rolling-window`, `quota`, `even-slots`, `min-interval`, `error-rate`, `concurrency` or `legacy`
{ algorithm = "error-rate", threshold = "0%", per = "1m", min_samples = 5, cool_down = "1s" }
=> 2:51: `threshold` must be from "0.01%" to "100%" with at most two decimals; found "0%"
{ algorithm = "concurrency", limit = 65537, lease = "1s" }
=> 2:48: a concurrency limit is at most 65536
{ algorithm = "concurrency", limit = 5, per = "1s", lease = "1s" }
=> 2:51: `per` does not belong to `concurrency`, which takes `limit` and `lease`
{ algorithm = "gcra", limit = 1, per = "1s", capcity = 3 }
=> 2:56: unknown key `capcity` in a `gcra` limit; did you mean `capacity`?
{ algorithm = "rolling-window", limit = 1, per = "1s", capasity = 3 }
=> 2:66: unknown key `capasity` in a `rolling-window` limit, which takes `limit`, `per` and `buckets`
{ algorithm = "leaky-bucket", burst = 3 }
=> 2:41: unknown key `burst` in a `leaky-bucket` limit; did you mean `capacity` (= burst + 1 in redis-cell and other systems that do not count the first request)?
{ algorithm = "gcra", limit = 1, per = "1s", buckets = 3 }
=> 2:56: `buckets` does not belong to `gcra`, which takes `limit`, `per`, `capacity` and `overdraft`
{ algorithm = "quota", limit = 1, per = "1s", overdraft = true }
=> 2:57: `overdraft` does not belong to `quota`, which takes `limit` and `per`
{ algorithm = "gcra", limit = 0, per = "1s" }
=> 2:41: `limit` must be at least 1; found 0
{ algorithm = "gcra", limit = -1, per = "1s" }
=> 2:41: `limit` must not be negative; found -1
{ algorithm = "gcra", limit = 1.5, per = "1s" }
=> 2:41: `limit` must be a whole number; found 1.5
{ algorithm = "gcra", limit = nan, per = "1s" }
=> 2:41: `limit` must be a whole number; found nan
{ algorithm = "gcra", limit = "1", per = "1s" }
=> 2:41: `limit` must be a whole number; found "1"
{ algorithm = "gcra", limit = 9007199254740992, per = "1s" }
=> 2:41: `limit` must be at most 9007199254740991; found 9007199254740992
{ algorithm = "gcra", limit = 99999999999999999999, per = "1s" }
=> 2:41: `limit` must be at most 9007199254740991; found 99999999999999999999
{ algorithm = "gcra", limit = 1, per = 60 }
=> 2:50: `per` must be a duration such as "250ms", "1s" or "1h30m"; found 60
{ algorithm = "gcra", limit = 1, per = "60" }
=> 2:50: `per` needs a unit, such as "60s" or "60ms"; found "60"
{ algorithm = "gcra", limit = 1, per = "0s" }
=> 2:50: `per` must be longer than 0; found "0s"
{ algorithm = "gcra", limit = 1, per = "-1s" }
=> 2:50: `per` must not be negative; found "-1s"
{ algorithm = "gcra", limit = 1, per = "0.5us" }
=> 2:50: `per` must be a whole number of microseconds; found "0.5us"
{ algorithm = "gcra", limit = 1, per = "101w53d" }, "1/36526d"
=> 2:63: the period must be at most 100 years; found "36526d"
{ algorithm = "gcra", limit = 1, per = "1d", capacity = 146101 }
=> 2:67: `capacity` is so large that it takes over 100 years to return; lower it or raise the rate
{ algorithm = "rolling-window", limit = 65537, per = "1s" }
=> 2:51: an exact rolling window holds at most 65536 units; give `buckets` to bound its memory
{ algorithm = "fixed-window", limit = 1, per = "month" }
=> 2:58: `per` = "month" is a calendar window, which needs `align = "calendar"`; otherwise write a duration such as "24h"
{ algorithm = "fixed-window", limit = 1, per = "1d", align = "calendar" }
=> 2:58: `per` of a calendar window must be `day`, `week`, `month` or `year`; found "1d"
{ algorithm = "fixed-window", limit = 1, per = "1d", timezone = "UTC" }
=> 2:75: `timezone` needs `align = "calendar"`
{ algorithm = "fixed-window", limit = 1, per = "day", align = "calendar", timezone = "Mars/Base" }
=> 2:96: there is no time zone `Mars/Base`; use a name of the tz database such as `Europe/Berlin`
{ algorithm = "gcra", limit = 1, per = "1s", name = "a" }, { algorithm = "quota", limit = 1, per = "1s", name = "a" }
=> 2:70: two limits of one policy are named `a`; give each its own `name`
"ten a second"
=> 2:11: "ten a second" is not a limit; write "10/s", "100 per minute" or "1000/1h sliding-window"
"10/s slidng-window"
=> 2:11: unknown algorithm "slidng-window"; did you mean `sliding-window`?
"10/s sliding window"
=> 2:11: unknown algorithm "sliding window"; did you mean `sliding-window`?
"10/s magic"
=> 2:11: unknown algorithm "magic"; it must be `gcra`, `token-bucket`, `fixed-window`, `sliding-window`, `rolling-window`, `quota` or `even-slots`
3
=> 2:11: a limit must be a table, or a string such as "10/s"
"#;

#[test]
fn limits() {
    for (limits, expected) in cases(LIMITS) {
        assert_eq!(complaint(&format!("[policies.p]\nlimits = [{limits}]")), expected, "{limits}");
    }
}

#[test]
fn several_units() {
    let limits =
        r#"limits = ["1/s", { algorithm = "gcra", limit = 1, per = "1s", unit = "bytes" }]"#;
    for (more, expected) in [
        (
            "mode = \"nary\"\n",
            "3:18: limits of different units (`requests` and `bytes`) cannot be used with mode = \"partial\" (\"nary\"): a part of a cost would have no unit; use mode = \"binary\"",
        ),
        (
            "lease = { size = 1, ttl = \"1s\" }\n",
            "2:9: `lease` takes units of one kind from the store, but these limits count several; remove one of them",
        ),
        (
            "overrides = { vip = [\"5/s\"] }\n",
            "2:21: the limits of an override must count the same units as the policy, `bytes` and `requests`; found `requests`",
        ),
    ] {
        assert_eq!(complaint(&format!("[policies.p]\n{more}{limits}")), expected);
    }
    let place = Place::with_config(&format!("[policies.p]\n{limits}"));
    assert_eq!(place.run(&["validate"]).code, Some(0));
}

#[test]
fn seventeen_limits() {
    let limits = vec!["\"1/s\""; 17].join(", ");
    let config = format!("[policies.p]\nlimits = [{limits}]");
    assert_eq!(complaint(&config), "2:10: `limits` must hold 1 to 16 limits; found 17");
}

#[test]
fn every_mistake_is_told_in_the_order_of_the_file() {
    let config = "[store]\nnodes = 0\n[policies.p]\nlimits = [\"0/s\", { algorithm = \"gcra\", limit = 1, pre = \"1s\" }]";
    let run = Place::with_config(config).run(&["validate"]);
    let expected = [
        "waterclock.toml:2:9: `nodes` must be at least 1; found 0",
        "waterclock.toml:4:11: the limit in \"0/s\" must be at least 1",
        "waterclock.toml:4:51: unknown key `pre` in a `gcra` limit; did you mean `per`?",
    ];
    assert_eq!(run.stderr.lines().collect::<Vec<&str>>(), expected);
}

#[test]
fn no_file_no_toml_no_utf8() {
    let run = Place::new().run(&["validate"]);
    assert_eq!(run.code, Some(2));
    assert_eq!(
        run.stderr,
        "there is no waterclock.toml in this directory; name a file with -c FILE\n"
    );
    let run = Place::new().run(&["validate", "elsewhere.toml"]);
    assert_eq!(run.code, Some(2));
    assert_eq!(run.stderr, "elsewhere.toml: there is no such file\n");
    assert_eq!(complaint("[policies.p]\nlimits = [\"1/s\""), "2:16: unclosed array, expected `]`");
    assert_eq!(complaint("a = 1\na = 2"), "2:1: duplicate key");
}

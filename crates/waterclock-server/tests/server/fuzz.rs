//! Random requests to everything there is, by the ten thousand: always an answer, never our fault.

use std::net::SocketAddr;

use fastrand::Rng;

use crate::at_work::AtWork;
use crate::client::Client;
use crate::patience::times;

const POLICIES: &str = r#"
[policies.p]
limits = ["1000/s"]
[policies.login]
key = ["client_ip", "user"]
mode = "nary"
headers = "ietf"
limits = ["5/h", "100/h sliding-window"]
[policies.bytes]
limits = [{ algorithm = "gcra", limit = 100, per = "1h", unit = "bytes" }]
"#;

const METHODS: [&str; 7] = ["POST", "POST", "POST", "GET", "PUT", "DELETE", "PATCH"];
const PATHS: [&str; 20] = [
    "/v1/check",
    "/v1/check",
    "/v1/check",
    "/v1/peek",
    "/v1/refund",
    "/v1/report",
    "/v1/reserve",
    "/v1/reservations/i/commit",
    "/v1/reservations/i",
    "/v1/authorize?policy=p",
    "/v1/authorize?policy=login&key=k&cost=1&deny_status=403",
    "/v1/policies",
    "/v1/policies/p",
    "/v1/policies/p/keys/k",
    "/v1/policies/login/keys/%00%ff",
    "/v1/policies/p/keys/k/override",
    "/healthz",
    "/metrics",
    "/v1/config",
    "/",
];
const BODIES: [&str; 10] = [
    r#"{"policy":"p","key":"k","cost":1}"#,
    r#"{"policy":"login","fields":{"client_ip":"192.0.2.1","user":"alice"},"cost":2}"#,
    r#"{"checks":[{"policy":"p","key":"a"},{"policy":"bytes","key":"b","cost":{"bytes":3}}],"atomic":false}"#,
    r#"{"checks":[{"policy":"p","key":"a"},{"policy":"p","key":"a"}]}"#,
    r#"{"policy":"p","key":"\u0000\ud83d\ude00","cost":9007199254740993}"#,
    r#"{"policy":"unknown","key":"k","cost":18446744073709551615}"#,
    r#"{"policy":"p","key":"k","cost":7,"ttl":"1s","id":"i","on_expiry":"release"}"#,
    r#"{"cost":5}"#,
    r#"[[[[{"a":[1e308,-0,null,true]}]]]]"#,
    "",
];
const LINES: [&str; 10] = [
    "accept: application/problem+json",
    "authorization: Bearer x",
    "authorization: \u{80}",
    "x-forwarded-for: 192.0.2.1, unknown, [::1]:5, 10.0.0.1",
    "forwarded: for=\"[2001:db8::1]:80\";proto=http, for=_x",
    "x-forwarded-uri: /a?b#c",
    "expect: 100-continue",
    "connection: keep-alive",
    "upgrade: h2c",
    "content-type: text/plain",
];

/// A request that is well framed, whatever else it is.
fn request(random: &mut Rng) -> Vec<u8> {
    let method = METHODS[random.usize(..METHODS.len())];
    let mut path = PATHS[random.usize(..PATHS.len())].as_bytes().to_vec();
    if random.u8(..4) == 0 {
        spoil(random, &mut path);
        // Anything else ends the target, and with it the framing.
        path.retain(|byte| (0x21..0x7f).contains(byte));
        path.insert(0, b'/');
    }
    let mut body = BODIES[random.usize(..BODIES.len())].as_bytes().to_vec();
    if random.bool() {
        spoil(random, &mut body);
    }
    let mut bytes = format!("{method} ").into_bytes();
    bytes.extend(path);
    bytes.extend(b" HTTP/1.1\r\nhost: t\r\n");
    for _ in 0..random.usize(..4) {
        bytes.extend(LINES[random.usize(..LINES.len())].as_bytes());
        bytes.extend(b"\r\n");
    }
    if random.u8(..8) == 0 {
        bytes.extend(format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len()).bytes());
        // A chunk of nothing would be the end already.
        let end: &[u8] = if body.is_empty() { b"\r\n" } else { b"\r\n0\r\n\r\n" };
        bytes.extend(body);
        bytes.extend(end);
    } else {
        bytes.extend(format!("content-length: {}\r\n\r\n", body.len()).bytes());
        bytes.extend(body);
    }
    bytes
}

/// A few bytes more, fewer or different.
fn spoil(random: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..=bytes.len());
        match random.u8(..4) {
            0 => bytes.insert(at, random.u8(..)),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 if at < bytes.len() => bytes[at] = random.u8(..),
            _ => {
                let piece = bytes[at.saturating_sub(random.usize(..20))..at].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

async fn ask(address: SocketAddr, seed: u64, count: usize) -> usize {
    let mut random = Rng::with_seed(seed);
    let mut client = Client::connect(address).await;
    let mut decided = 0;
    for at in 0..count {
        let request = request(&mut random);
        let show = || format!("seed {seed}, {at}: {}", String::from_utf8_lossy(&request));
        let mut answer = client.try_send(&request).await.unwrap_or_else(|| panic!("{}", show()));
        if answer.status == 100 {
            answer = client.read().await.unwrap_or_else(|| panic!("{}", show()));
        }
        assert!(answer.status < 500, "{}: {}", answer.status, show());
        decided += usize::from([200, 201, 429].contains(&answer.status));
        if answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            client = Client::connect(address).await;
        }
    }
    decided
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests() {
    let server = AtWork::serving(POLICIES).await;
    let count = times(10_000, 2_000);
    let mut asking = tokio::task::JoinSet::new();
    for seed in 1..=4 {
        asking.spawn(ask(server.http_address(), seed, count));
    }
    while let Some(decided) = asking.join_next().await {
        let decided = decided.expect("an answer to everything");
        assert!(decided > count / 20, "only {decided} of {count} got anywhere");
    }
    let mut client = server.http().await;
    assert_eq!(client.post("/v1/check", BODIES[0]).await.status, 200);
}

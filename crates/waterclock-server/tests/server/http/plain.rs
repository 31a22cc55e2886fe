//! Plain requests, which are answered without hyper and the router: the same bytes as with them.

use std::time::Duration;

use fastrand::Rng;

use crate::at_work::{AtWork, auth};
use crate::client::{Answer, Client};

const POLICIES: &str = r#"
[policies.p]
headers = "ietf"
limits = [{ name = "one", algorithm = "gcra", limit = 5, per = "1h" }]

[policies.several]
headers = "draft-03"
limits = ["5/h", "100/h sliding-window"]

[policies.legacy]
headers = "legacy"
limits = ["2/h"]

[policies.login]
key = ["client_ip", "user"]
mode = "partial"
limits = ["3/h"]

[policies.tokens]
limits = [
  { name = "calls", algorithm = "gcra", limit = 10, per = "1h" },
  { name = "tokens", algorithm = "gcra", limit = 100, per = "1h", unit = "tokens" },
]

[policies.paid]
tiers = { pro = { factor = 0.5 } }
limits = ["1/h"]

[policies.list]
block = ["blocked"]
exempt = ["exempt"]
limits = ["1/h"]

[policies.hidden]
shadow = true
limits = ["1/h"]
"#;

/// `K` is a key that no other request uses.
const BODIES: [&str; 42] = [
    r#"{"policy":"p","key":"K"}"#,
    r#"{"policy":"p","key":"K","cost":3}"#,
    r#"{"policy":"p","key":"K","cost":5}"#,
    r#"{"policy":"p","key":"K","cost":6}"#,
    r#"{"policy":"p","key":"K","cost":0}"#,
    "  {\n\t\"key\" : \"K\" ,\r\n \"policy\" : \"p\"  }\n ",
    r#"{"cost":2,"key":"K","policy":"several"}"#,
    r#"{"policy":"p","key":"K\u0041\n\"\\\/é😀"}"#,
    r#"{"\u0070olicy":"p","key":"K"}"#,
    r#"{"policy":"p","key":""}"#,
    r#"{"policy":"p"}"#,
    r#"{"policy":"p","key":"K","key":"L"}"#,
    r#"{"policy":"p","policy":"p","key":"K"}"#,
    r#"{"policy":"p","key":"K","unknown":1}"#,
    r#"{"policy":"p","keys":"K"}"#,
    r#"{"policy":"p","key":"K","cost":1.0}"#,
    r#"{"policy":"p","key":"K","cost":1e2}"#,
    r#"{"policy":"p","key":"K","cost":-1}"#,
    r#"{"policy":"p","key":"K","cost":9007199254740993}"#,
    r#"{"policy":"p","key":"K","cost":18446744073709551615}"#,
    r#"{"policy":"p","key":"K","cost":18446744073709551616}"#,
    r#"{"policy":"p","key":"K","cost":"1"}"#,
    r#"{"policy":"p","key":"K","cost":null}"#,
    r#"{"policy":"p","key":null,"tier":null}"#,
    r#"{"policy":"tokens","key":"K","cost":{"requests":1,"tokens":80}}"#,
    r#"{"policy":"tokens","key":"K","cost":{"tokens":101}}"#,
    r#"{"policy":"tokens","key":"K","cost":{"words":1}}"#,
    r#"{"policy":"tokens","key":"K","cost":2}"#,
    r#"{"policy":"p","key":"K","cost":{}}"#,
    r#"{"policy":"login","fields":{"client_ip":"192.0.2.1","user":"K","n":7,"b":true},"cost":4}"#,
    r#"{"policy":"login","fields":{"client_ip":"no address","user":"K"}}"#,
    r#"{"policy":"login","fields":{"user":"K"}}"#,
    r#"{"policy":"paid","key":"K","tier":"pro"}"#,
    r#"{"policy":"paid","key":"K","tier":"none"}"#,
    r#"{"policy":"p","key":"K","factor":0.5,"cost":3}"#,
    r#"{"policy":"list","key":"blocked"}"#,
    r#"{"checks":[{"policy":"p","key":"K"},{"policy":"several","key":"K","cost":2}]}"#,
    r#"{"checks":[{"policy":"p","key":"K","cost":6},{"policy":"p","key":"K"}],"atomic":true}"#,
    r#"{"checks":[{"policy":"p","key":"K"},{"policy":"legacy","key":"K","cost":3}],"atomic":false}"#,
    r#"{"checks":[{"policy":"p","key":"K"},{"policy":"unknown","key":"K"}],"atomic":false}"#,
    r#"{"checks":[]}"#,
    r#"[1,2"#,
];
const MORE_BODIES: [&str; 5] = [
    r#"{"policy":"list","key":"exempt"}"#,
    r#"{"policy":"hidden","key":"K","cost":2}"#,
    r#"{"policy":"unknown","key":"K"}"#,
    "",
    "\u{0}\u{1}",
];
const TARGETS: [&str; 9] = [
    "/v1/check",
    "/v1/check",
    "/v1/check",
    "/v1/peek",
    "/v1/check?fields=allowed,retry_after_us",
    "/v1/peek?fields=limits,key,allowed",
    "/v1/check?fields=wrong",
    "/v1/check?other=1&fields=",
    "/v1/check?fields=key&fields=cost",
];
const QUERIES: [&str; 12] = [
    "?policy=p&key=K",
    "?policy=p&key=K&cost=2",
    "?policy=p&key=K&cost=9&deny_status=403",
    "?policy=p&key=K&cost=9&deny_status=499",
    "?policy=p&key=K&deny_status=200",
    "?policy=p",
    "?policy=login&cost=1",
    "?policy=tokens&key=K&cost=requests%3D1,tokens%3D5",
    "?policy=paid&key=K&tier=pro&factor=2",
    "?policy=p&key=a%20%22K%ff",
    "?polcy=p&key=K",
    "",
];
const LINES: [&str; 13] = [
    "content-type: application/json",
    "User-Agent:   curl/8.0  ",
    "accept: */*",
    "accept: application/problem+json",
    "accept-encoding: gzip",
    "connection: keep-alive",
    "authorization: Bearer unknown",
    "origin: http://elsewhere.example",
    "sec-fetch-site: cross-site",
    "accept-language: en",
    "x-forwarded-for: 192.0.2.77",
    "x-waterclock-user: K",
    "cookie: a=\"b\"; c",
];

struct Asked {
    line: String,
    lines: String,
    body: String,
}

impl Asked {
    fn random(random: &mut Rng, key: &str) -> Asked {
        let many = random.usize(..4);
        let mut lines: String =
            (0..many).map(|_| format!("{}\r\n", LINES[random.usize(..LINES.len())])).collect();
        let (line, body) = if random.u8(..4) == 0 {
            (format!("GET /v1/authorize{}", QUERIES[random.usize(..QUERIES.len())]), String::new())
        } else {
            let at = random.usize(..BODIES.len() + MORE_BODIES.len());
            let body = BODIES.get(at).unwrap_or_else(|| &MORE_BODIES[at - BODIES.len()]);
            (format!("POST {}", TARGETS[random.usize(..TARGETS.len())]), body.replace('K', key))
        };
        if !body.is_empty() || line.starts_with("POST") {
            lines.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        Asked { line: line.replace('K', key), lines: lines.replace('K', key), body }
    }

    /// A `TE` changes no answer, but makes a request one for hyper.
    fn bytes(&self, is_plain: bool) -> Vec<u8> {
        let Asked { line, lines, body } = self;
        let te = if is_plain { "" } else { "te: trailers\r\n" };
        format!("{line} HTTP/1.1\r\nHost: t\r\n{te}{lines}\r\n{body}").into_bytes()
    }
}

/// The text of an answer, without what depends on the instant.
fn timeless(answer: &Answer) -> String {
    let mut text = String::new();
    for (at, part) in answer.text().split("_us\":").enumerate() {
        if at > 0 {
            text.push_str("_us\":");
            text.push_str(if part.starts_with(|first: char| first.is_ascii_digit()) {
                "0"
            } else {
                ""
            });
        }
        text.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    text
}

/// Requests of all kinds to two servers of one configuration, one of which never sees a plain one.
async fn compare(configuration: &str, seed: u64, count: usize) -> [usize; 2] {
    let servers = [AtWork::serving(configuration).await, AtWork::serving(configuration).await];
    let mut random = Rng::with_seed(seed);
    let [mut plain, mut other] = [servers[0].http().await, servers[1].http().await];
    let (mut admitted, mut refused) = (0, 0);
    for at in 0..count {
        let asked = Asked::random(&mut random, &format!("key{at}"));
        let answer = plain.try_send(&asked.bytes(true)).await.expect("an answer");
        let same = other.try_send(&asked.bytes(false)).await.expect("an answer");
        assert_eq!(timeless(&answer), timeless(&same), "{}", asked.line.clone() + &asked.body);
        admitted += usize::from(answer.status == 200);
        refused += usize::from([403, 429].contains(&answer.status));
    }
    let metrics = |text: String| -> Vec<String> {
        let counted = ["waterclock_decisions_total", "waterclock_auth_failures"];
        let is_counted = |line: &&str| counted.iter().any(|name| line.starts_with(name));
        let mut lines: Vec<String> = text.lines().filter(is_counted).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let [one, two] = servers.map(|server| metrics(server.running.server().metrics_text()));
    assert_eq!(one, two);
    [admitted, refused]
}

#[tokio::test]
async fn the_same_answers() {
    let [admitted, refused] = compare(POLICIES, 1, 1_500).await;
    assert!(admitted > 300 && refused > 100, "{admitted} {refused}");
    let trusting = format!("[server]\ntrusted_proxies = [\"127.0.0.0/8\"]\n{POLICIES}");
    compare(&trusting, 2, 500).await;
}

#[tokio::test]
async fn the_same_answers_where_tokens_are_needed() {
    let configuration = auth(&[("good", "check"), ("reader", "read")]) + POLICIES;
    let server = AtWork::serving(&configuration).await;
    let body = r#"{"policy":"p","key":"k"}"#;
    let ask = async |client: &mut Client, lines: &[&str]| {
        let plain = client.send("POST", "/v1/check", lines, body).await;
        let mut other = server.http().await;
        let same =
            other.send("POST", "/v1/check", &[&["te: trailers"], lines].concat(), body).await;
        if plain.status != 200 {
            assert_eq!(plain.text(), same.text());
        }
        (plain.status, same.status)
    };
    let mut client = server.http().await;
    assert_eq!(ask(&mut client, &[]).await, (401, 401));
    assert_eq!(ask(&mut client, &["authorization: Bearer wrong"]).await, (401, 401));
    assert_eq!(ask(&mut client, &["Authorization: bearer good"]).await, (200, 200));
    assert_eq!(ask(&mut client, &["authorization: Bearer reader"]).await, (403, 403));
}

#[tokio::test]
async fn a_connection_can_leave_the_plain_form_at_any_time() {
    let (server, mut client) = AtWork::with_client(POLICIES).await;
    let check = b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 24\r\n\r\n{\"policy\":\"p\",\"key\":\"k\"}";
    assert_eq!(client.try_send(check).await.unwrap().json()["remaining"], 4);
    // In two pieces, and then two at once.
    client.write(&check[..50]).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(client.try_send(&check[50..]).await.unwrap().json()["remaining"], 3);
    assert_eq!(client.try_send(&check.repeat(2)).await.unwrap().json()["remaining"], 2);
    assert_eq!(client.read().await.unwrap().json()["remaining"], 1);
    assert_eq!(client.get("/healthz").await.body, "ok\n");
    assert_eq!(client.try_send(check).await.unwrap().json()["remaining"], 0);
    drop(client);
    let mut at_once = server.http().await;
    assert_eq!(at_once.try_send(&check.repeat(2)).await.unwrap().status, 429);
    assert_eq!(at_once.read().await.unwrap().status, 429);
}

//! Lines are bounded: of a key, a policy, an address, a connection, and in all.

use tokio::task::JoinSet;
use tokio::time::timeout;
use waterclock_server::{Room, Timing};

use super::{Resp, SOON, body, eventually_in_line, spend, with_room};
use crate::at_work::{AtWork, hurried};
use crate::client::Answer;

/// A minute is time for any line here.
const FAST: &str = r#"
[policies.slow]
limits = [{ name = "units", algorithm = "gcra", limit = 60, per = "30s", capacity = 60 }]
[policies.other]
limits = [{ name = "units", algorithm = "gcra", limit = 60, per = "30s", capacity = 60 }]
"#;

/// Puts so many callers in line for a key. The first wants all there is.
async fn fill(server: &AtWork, policy: &str, key: &str, callers: usize) -> JoinSet<Answer> {
    let mut waiting = JoinSet::new();
    let mut client = server.http().await;
    let spent = client.post("/v1/check", &super::check(policy, key, 60)).await;
    assert_eq!(spent.status, 200, "{}", spent.body);
    for n in 0..callers {
        let (mut client, cost) = (server.http().await, if n == 0 { 60 } else { 1 });
        let body = body(policy, key, cost, "60s");
        waiting.spawn(async move { client.post("/v1/wait", &body).await });
    }
    waiting
}

/// 64 places: 8 for a key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_has_an_end() {
    let server = with_room(FAST, 64).await;
    let waiting = fill(&server, "slow", "k", 8).await;
    eventually_in_line(&server, "slow", 8).await;
    let mut client = server.http().await;
    let full = client.post("/v1/wait", &body("slow", "k", 1, "60s")).await;
    assert_eq!((full.status, &full.json()["refused_by"]), (429, &serde_json::json!([])));
    assert!(super::seconds(&full.json(), "retry_after_us") > 1.0, "{}", full.body);
    let mut resp = Resp::connect(&server).await;
    assert_eq!(resp.ask("RL.WAIT slow k 1 60000").await[0], 0);
    // Another key has its own line.
    spend(&mut client, "other", 60).await;
    resp.send("RL.WAIT other k 1 60000").await;
    assert_eq!(resp.numbers().await[0], 1);
    drop(waiting);
    eventually_in_line(&server, "slow", 0).await;
}

/// However many wait, other requests find a place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_takes_no_place_among_requests() {
    let config = waterclock_config::Config::read("test.toml", FAST).unwrap();
    let room = Room { requests: 16, ..Room::default() };
    let server = AtWork::with(config, Timing { room, ..hurried() }).await;
    let mut waiting = fill(&server, "slow", "k", 1).await;
    for callers in 1..30 {
        eventually_in_line(&server, "slow", callers).await;
        let (mut client, body) = (server.http().await, body("slow", "k", 1, "60s"));
        waiting.spawn(async move { client.post("/v1/wait", &body).await });
    }
    eventually_in_line(&server, "slow", 30).await;
    let mut client = server.http().await;
    for _ in 0..20 {
        assert_eq!(client.post("/v1/check", &super::check("slow", "l", 1)).await.status, 200);
    }
}

/// 64 places: 48 for known clients, of which an address has a quarter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_has_a_quarter() {
    let server = with_room(FAST, 64).await;
    let (_eight, _four) =
        (fill(&server, "slow", "a", 8).await, fill(&server, "slow", "b", 4).await);
    eventually_in_line(&server, "slow", 12).await;
    let mut client = server.http().await;
    let full = client.post("/v1/wait", &body("slow", "c", 1, "60s")).await;
    assert_eq!((full.status, full.header("retry-after")), (503, Some("1")), "{}", full.body);
    let mut resp = Resp::connect(&server).await;
    resp.send("RL.WAIT slow c 1 60000").await;
    assert_eq!(resp.lines(1).await, ["-BUSY too many callers wait already; try again"]);
    // Checks go on.
    assert_eq!(client.post("/v1/check", &super::check("slow", "c", 1)).await.status, 200);
    let shed = "waterclock_shed_total{face=\"http\"} 1";
    assert!(client.get("/metrics").await.body.contains(shed));
}

/// Through a proxy, whose address stands for many: half of the 64 for a policy, 48 in all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_has_half_and_all_have_the_rest() {
    let proxied = format!("[server]\ntrusted_proxies = [\"127.0.0.1\"]\n{FAST}");
    let server = with_room(&proxied, 64).await;
    let mut waiting = Vec::new();
    for key in ["a", "b", "c", "d"] {
        waiting.push(fill(&server, "slow", key, 8).await);
    }
    eventually_in_line(&server, "slow", 32).await;
    let mut client = server.http().await;
    client.post("/v1/check", &super::check("slow", "e", 60)).await;
    let full = client.post("/v1/wait", &body("slow", "e", 1, "60s")).await;
    assert_eq!(full.status, 503, "{}", full.body);
    for key in ["a", "b"] {
        waiting.push(fill(&server, "other", key, 8).await);
    }
    eventually_in_line(&server, "other", 16).await;
    let full = client.post("/v1/wait", &body("other", "e", 1, "60s")).await;
    assert_eq!(full.status, 503, "{}", full.body);
    drop(waiting);
    eventually_in_line(&server, "slow", 0).await;
    let free = client.post("/v1/wait", &body("other", "e", 1, "60s")).await;
    assert_eq!(free.status, 200, "{}", free.body);
}

/// 256 places: two for a connection, which has more streams than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_has_a_few() {
    use crate::hostile::frames;
    use tokio::io::AsyncWriteExt;
    let server = with_room(FAST, 256).await;
    let _first = fill(&server, "slow", "k", 1).await;
    eventually_in_line(&server, "slow", 1).await;
    let mut stream = tokio::net::TcpStream::connect(server.http_address()).await.unwrap();
    let mut bytes = frames::opening();
    for id in [1, 3, 5] {
        bytes.extend(frames::post(id, "/v1/wait", false));
        let wait = body("slow", "k", 1, "60s");
        bytes.extend(frames::frame(frames::DATA, frames::END_STREAM, id, wait.as_bytes()));
    }
    stream.write_all(&bytes).await.unwrap();
    let mut heard = frames::Heard::default();
    let answer = heard.until(&mut stream, |frame| frame.kind == frames::HEADERS);
    let answer = timeout(SOON, answer).await.expect("at once").expect("an answer");
    // `:status` with a value of its own, which is no 200.
    assert_eq!(answer.payload[0] & 0xf0, 0x40, "{:?}", answer.payload);
    eventually_in_line(&server, "slow", 3).await;
    drop(stream);
    eventually_in_line(&server, "slow", 1).await;
}

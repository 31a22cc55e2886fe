//! How a wait ends that is not admitted: the client goes away, its time is up, or the server stops.

use std::time::Duration;

use tokio::time::timeout;
use waterclock_config::Config;
use waterclock_server::{Patience, Timing};

use super::{
    Resp, SLOW, SOON, answered, body, check, eventually_in_line, in_line, in_line_after, spend,
    wait,
};
use crate::at_work::{AtWork, hurried};
use crate::patience::{LONG, times};

/// The next in line passes at once when the first, which wants too much, is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_makes_room() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    for over_http in [true, false] {
        spend(&mut client, "slow", 3).await;
        let (http, mut resp) = if over_http {
            (Some(in_line_after(&server, 0, 4, "60s").await), None)
        } else {
            let mut resp = Resp::connect(&server).await;
            resp.send("RL.WAIT slow k 4 60000").await;
            eventually_in_line(&server, "slow", 1).await;
            (None, Some(resp))
        };
        let next = in_line_after(&server, 1, 1, "60s").await;
        if let Some(http) = http {
            http.abort();
        }
        drop(resp.take());
        let next = timeout(SOON, next).await.expect("has its turn").unwrap();
        assert_eq!((next.status, &next.json()["remaining"]), (200, &1.into()), "{}", next.body);
        assert_eq!(in_line(&server, "slow"), 0);
        assert_eq!(client.post("/v1/refund", &check("slow", "k", 5)).await.status, 200);
    }
}

/// A caller that hangs up in the moment in which it is admitted: it gets its answer, or nothing is charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_answered_or_not_charged() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (server, mut client) = AtWork::with_client(SLOW).await;
    let wait = body("slow", "k", 1, "60s");
    let head = "POST /v1/wait HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length:";
    let request = format!("{head} {}\r\n\r\n{wait}", wait.len());
    for round in 0..400 {
        spend(&mut client, "slow", 5).await;
        let mut waiting = tokio::net::TcpStream::connect(server.http_address()).await.unwrap();
        waiting.write_all(request.as_bytes()).await.unwrap();
        eventually_in_line(&server, "slow", 1).await;
        let hang_up = tokio::spawn(async move {
            for _ in 0..fastrand::u32(..40) {
                tokio::task::yield_now().await;
            }
            waiting.shutdown().await.unwrap();
            let mut answer = Vec::new();
            // Closed in whatever way.
            _ = waiting.read_to_end(&mut answer).await;
            answer
        });
        assert_eq!(client.post("/v1/refund", &check("slow", "k", 1)).await.status, 200);
        let answer = timeout(LONG, hang_up).await.expect("ends").unwrap();
        let left = u64::from(answer.is_empty());
        let peek = check("slow", "k", 0);
        crate::patience::eventually(&format!("{left} left in round {round}"), async || {
            let mut other = server.http().await;
            other.post("/v1/peek", &peek).await.json()["remaining"] == left
        })
        .await;
        assert_eq!(client.post("/v1/reset", &check("slow", "k", 1)).await.status, 200);
    }
}

/// A stream of HTTP/2 ends without its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_reset_makes_room() {
    use crate::hostile::frames;
    use tokio::io::AsyncWriteExt;
    let (server, mut client) = AtWork::with_client(SLOW).await;
    spend(&mut client, "slow", 5).await;
    let mut stream = tokio::net::TcpStream::connect(server.http_address()).await.unwrap();
    let mut bytes = frames::opening();
    bytes.extend(frames::post(1, "/v1/wait", false));
    let wait = body("slow", "k", 1, "60s");
    bytes.extend(frames::frame(frames::DATA, frames::END_STREAM, 1, wait.as_bytes()));
    stream.write_all(&bytes).await.unwrap();
    eventually_in_line(&server, "slow", 1).await;
    let cancel = frames::frame(frames::RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    stream.write_all(&cancel).await.unwrap();
    eventually_in_line(&server, "slow", 0).await;
}

/// A first that takes 40 s, and then ten in a second.
const LONG_LINE: &str = r#"
[policies.slow]
limits = [{ algorithm = "gcra", limit = 10, per = "1s", capacity = 400 }]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_that_go_away_leave_nothing_behind() {
    let (server, mut client) = AtWork::with_client(LONG_LINE).await;
    for batch in 0..times(100, 10) {
        let spent = client.post("/v1/check", &check("slow", &format!("k{batch}"), 400)).await;
        assert_eq!(spent.status, 200, "{}", spent.body);
        let mut callers = Vec::new();
        for n in 0..100 {
            let (mut resp, cost) = (Resp::connect(&server).await, if n == 0 { 400 } else { 1 });
            resp.send(&format!("RL.WAIT slow k{batch} {cost} 60000")).await;
            callers.push(resp);
            if n == 0 {
                eventually_in_line(&server, "slow", 1).await;
            }
        }
        eventually_in_line(&server, "slow", 100).await;
        drop(callers);
        eventually_in_line(&server, "slow", 0).await;
    }
    server.has_no_connections(waterclock_server::observe::Face::Resp).await;
}

/// Its time is up while another is before it: the first was expected to pass by then, and did not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_is_up_in_line() {
    let (server, mut client) = AtWork::with_client(
        "[policies.slow]\nlimits = [{ algorithm = \"gcra\", limit = 1, per = \"1s\", capacity = 5 }]\n",
    )
    .await;
    spend(&mut client, "slow", 5).await;
    let first = in_line_after(&server, 0, 5, "60s").await;
    let second = in_line_after(&server, 1, 1, "10s").await;
    // Costs that are known only now make the line slower than it was expected to be.
    let debit = client.post("/v1/report", &check("slow", "k", 8)).await;
    assert_eq!(debit.status, 200, "{}", debit.body);
    let late = answered(second).await;
    assert_eq!((late.status, &late.json()["refused_by"]), (429, &serde_json::json!([])));
    first.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_answers() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    spend(&mut client, "slow", 5).await;
    let first = in_line_after(&server, 0, 5, "60s").await;
    let second = in_line_after(&server, 1, 1, "60s").await;
    let mut resp = Resp::connect(&server).await;
    spend(&mut client, "other", 5).await;
    resp.send("RL.WAIT other k 1 60000").await;
    eventually_in_line(&server, "other", 1).await;
    timeout(LONG, server.running.stop()).await.expect("stops");
    for waiting in [first, second] {
        let answer = answered(waiting).await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
        assert!(answer.body.contains("stopping"), "{}", answer.body);
    }
    assert_eq!(resp.lines(1).await, ["-BUSY the server is stopping; try again"]);
}

/// Connections that wait are neither idle nor late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_waits_is_not_idle() {
    let text = "[server]\nauthenticate_within = \"1s\"\n[policies.slow]\n\
                limits = [{ algorithm = \"gcra\", limit = 1, per = \"4s\", capacity = 1 }]\n";
    let patience = Patience { idle: Duration::from_millis(500), ..Patience::default() };
    let config = Config::read("test.toml", text).unwrap();
    let server = AtWork::with(config, Timing { patience, ..hurried() }).await;
    let mut client = server.http().await;
    spend(&mut client, "slow", 1).await;
    let http = wait(&server, "slow", 1, "60s").await;
    let mut resp = Resp::connect(&server).await;
    let numbers = timeout(LONG, resp.ask("RL.WAIT slow k 1 60000")).await.expect("is admitted");
    assert_eq!(numbers[0], 1);
    assert_eq!(answered(http).await.status, 200);
}

/// `RL.WAIT` holds up what follows on its own connection, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_its_own_connection_waits() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    spend(&mut client, "slow", 5).await;
    let (mut one, mut two) = (Resp::connect(&server).await, Resp::connect(&server).await);
    one.send("PING\r\nRL.WAIT slow k 2 60000\r\nRL.PEEK slow k\r\nPING").await;
    // What came before is answered before.
    assert_eq!(one.lines(1).await, ["+PONG"]);
    eventually_in_line(&server, "slow", 1).await;
    two.send("PING").await;
    assert_eq!(two.lines(1).await, ["+PONG"]);
    one.send("ECHO late").await;
    assert!(timeout(Duration::from_millis(100), one.lines(1)).await.is_err());
    assert_eq!(two.ask("RL.REFUND slow k 5").await[..3], [1, 5, 5]);
    let lines = timeout(SOON, one.lines(17)).await.expect("is woken");
    assert_eq!(lines[..4], ["*6", ":1", ":5", ":3"], "{lines:?}");
    assert_eq!(lines[7..11], ["*6", ":1", ":5", ":3"], "{lines:?}");
    assert_eq!(lines[14..], ["+PONG", "$4", "late"], "{lines:?}");
}

/// What is wrong is named.
#[tokio::test]
async fn wrong_waits_are_explained() {
    let (server, mut client) = AtWork::with_client(SLOW).await;
    for (body, field) in [
        (r#"{"policy":"slow","key":"k"}"#, "within"),
        (r#"{"policy":"slow","key":"k","within":"61s"}"#, "within"),
        (r#"{"policy":"slow","key":"k","within":"5"}"#, "within"),
        (r#"{"policy":"slow","key":"k","within":5}"#, "within"),
        (r#"{"policy":"slow","key":"k","within":"-1s"}"#, "within"),
        (r#"{"checks":[{"policy":"slow","key":"k"}],"within":"1s"}"#, "checks"),
        (r#"{"policy":"slow","key":"k","within":"1s","ttl":"1s"}"#, "ttl"),
    ] {
        let answer = client.post("/v1/wait", body).await;
        assert_eq!((answer.status, &answer.json()["field"]), (400, &field.into()), "{body}");
    }
    let unknown = client.post("/v1/wait", &body("fast", "k", 1, "1s")).await;
    assert_eq!(unknown.status, 404, "{}", unknown.body);
    let mut resp = Resp::connect(&server).await;
    for (line, says) in [
        ("RL.WAIT slow k 1", "wrong number of arguments"),
        ("RL.WAIT slow k 1 60001", "within_ms must be from 0 to 60000"),
        ("RL.WAIT slow k 1 soon", "within_ms must be"),
        ("RL.WAIT slow k x 1", "cost must be a whole number"),
        ("RL.WAIT slow k 1 1 NOW", "unknown option"),
        ("RL.WAIT fast k 1 1", "there is no policy"),
    ] {
        resp.send(line).await;
        let reply = resp.lines(1).await.remove(0);
        assert!(reply.starts_with("-ERR ") && reply.contains(says), "{line}: {reply}");
    }
    resp.send("RL.WAIT slow k 1 5 TIER staff JSON").await;
    let lines = resp.lines(2).await;
    let decision: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!((&decision["allowed"], &decision["source"]), (&true.into(), &"policy".into()));
}

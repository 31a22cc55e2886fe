//! Waiting until a check is admitted, over HTTP and the Redis protocol.

mod bounds;
mod ends;
mod order;
mod overtaking;
mod redis;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use waterclock_server::Room;

use crate::at_work::{AtWork, hurried};
use crate::client::{Answer, Client};
use crate::patience::{LONG, eventually};

/// One unit in ten seconds: nothing passes by itself while a test looks at a line.
const SLOW: &str = r#"
[policies.slow]
limits = [{ name = "units", algorithm = "gcra", limit = 1, per = "10s", capacity = 5 }]
exempt = ["root"]
block = ["mallory"]
tiers = { staff = { factor = 0 } }

[policies.other]
limits = [{ algorithm = "gcra", limit = 1, per = "10s", capacity = 5 }]
"#;

fn body(policy: &str, key: &str, cost: u64, within: &str) -> String {
    json!({ "policy": policy, "key": key, "cost": cost, "within": within }).to_string()
}

fn check(policy: &str, key: &str, cost: u64) -> String {
    json!({ "policy": policy, "key": key, "cost": cost }).to_string()
}

/// How many callers are in line for keys of a policy.
fn in_line(server: &AtWork, policy: &str) -> usize {
    let text = server.running.server().metrics_text();
    let line = format!("waterclock_waiting{{policy=\"{policy}\"}} ");
    let number = text.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok());
    number.expect("a gauge for each policy")
}

async fn eventually_in_line(server: &AtWork, policy: &str, callers: usize) {
    eventually("callers in line", async || in_line(server, policy) == callers).await;
}

/// A wait over HTTP, on a connection of its own. Aborted, it closes the connection.
async fn wait(server: &AtWork, policy: &str, cost: u64, within: &str) -> JoinHandle<Answer> {
    let (mut client, body) = (server.http().await, body(policy, "k", cost, within));
    tokio::spawn(async move { client.post("/v1/wait", &body).await })
}

/// A wait that is in line when this returns.
async fn in_line_after(
    server: &AtWork,
    callers: usize,
    cost: u64,
    within: &str,
) -> JoinHandle<Answer> {
    let waiting = wait(server, "slow", cost, within).await;
    eventually_in_line(server, "slow", callers + 1).await;
    waiting
}

async fn answered(waiting: JoinHandle<Answer>) -> Answer {
    timeout(LONG, waiting).await.expect("is answered").expect("no panic")
}

/// Spends units of the key.
async fn spend(client: &mut Client, policy: &str, cost: u64) {
    let spent = client.post("/v1/check", &check(policy, "k", cost)).await;
    assert_eq!(spent.status, 200, "{}", spent.body);
}

fn seconds(decision: &Value, field: &str) -> f64 {
    decision[field].as_f64().unwrap_or_else(|| panic!("{field} in {decision}")) / 1e6
}

/// A connection of the Redis protocol that sends lines and returns what comes.
struct Resp(TcpStream);

impl Resp {
    async fn connect(server: &AtWork) -> Resp {
        Resp(TcpStream::connect(server.resp_address()).await.expect("listens"))
    }

    async fn send(&mut self, line: &str) {
        self.0.write_all(format!("{line}\r\n").as_bytes()).await.expect("is open");
    }

    /// What comes until there are so many lines.
    async fn lines(&mut self, lines: usize) -> Vec<String> {
        let mut text = Vec::new();
        while text.iter().filter(|byte| **byte == b'\n').count() < lines {
            let read = timeout(LONG, self.0.read_buf(&mut text)).await.expect("answers");
            assert!(
                read.expect("no reset") > 0,
                "closed after {:?}",
                String::from_utf8_lossy(&text)
            );
        }
        String::from_utf8(text).expect("text").lines().map(str::to_owned).collect()
    }

    /// The six numbers of a decision.
    async fn numbers(&mut self) -> Vec<i64> {
        let lines = self.lines(7).await;
        assert_eq!(lines[0], "*6", "{lines:?}");
        lines[1..].iter().map(|line| line[1..].parse().expect("a number")).collect()
    }

    async fn ask(&mut self, line: &str) -> Vec<i64> {
        self.send(line).await;
        self.numbers().await
    }
}

/// A server with room for so many callers in line.
async fn with_room(text: &str, waits: usize) -> AtWork {
    let config = waterclock_config::Config::read("test.toml", text).expect("valid");
    let room = Room { waits, ..Room::default() };
    AtWork::with(config, waterclock_server::Timing { room, ..hurried() }).await
}

/// Shorter than a line would take by itself, and long for anything else.
const SOON: Duration = Duration::from_secs(8);

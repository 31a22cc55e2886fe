//! All floods at once against a real server, and an honest client beside them: its answers stay right, and memory stays
//! bounded. Latencies are printed, not asserted: `cargo test -p waterclock-cli --test cli floods -- --nocapture`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use waterclock::{Clock, MonotonicClock};

use super::process::Serving;
use crate::support::Place;

/// Nothing refills while the test runs.
const CONFIG: &str = r#"
[store]
max_keys = 1_000_000
max_bytes = "32MiB"

[policies.honest]
limits = [{ algorithm = "fixed-window", limit = 1_000_000, per = "1h" }]

[policies.newcomers]
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 5 }]

[policies.flooded]
limits = [{ algorithm = "gcra", limit = 1, per = "1h", capacity = 1 }]

[policies.logs]
limits = [{ algorithm = "rolling-window", limit = 1000, per = "1h" }]

[policies.reserved]
limits = [{ algorithm = "fixed-window", limit = 1_000_000_000, per = "1h" }]
"#;

const MOST_MIB: u64 = 256;
const CALM: Duration = Duration::from_secs(2);

/// A client of the Redis protocol that sends lines and reads replies.
struct Resp(BufReader<TcpStream>);

impl Resp {
    fn connect(url: &str) -> Resp {
        let stream = TcpStream::connect(url.trim_start_matches("redis://")).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Resp(BufReader::new(stream))
    }

    fn send(&mut self, lines: &str) {
        self.0.get_mut().write_all(lines.as_bytes()).unwrap();
    }

    /// The next array of integers; an error is an empty one.
    fn numbers(&mut self) -> Vec<i64> {
        let line = self.line();
        let Some(count) = line.strip_prefix('*') else { return Vec::new() };
        let count: usize = count.parse().unwrap();
        (0..count).map(|_| self.line().trim_start_matches(':').parse().unwrap()).collect()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> Vec<i64> {
        self.send(&format!("{line}\r\n"));
        self.numbers()
    }

    /// Sends so many lines, a hundred at a time; returns how many were answered with numbers.
    fn flood(&mut self, many: u32, line: impl Fn(u32) -> String) -> u32 {
        let mut answered = 0;
        for from in (0..many).step_by(100) {
            let batch = from..many.min(from + 100);
            self.send(&batch.clone().map(|n| line(n) + "\r\n").collect::<String>());
            answered += batch.map(|_| u32::from(!self.numbers().is_empty())).sum::<u32>();
        }
        answered
    }
}

/// An honest client: one key whose count goes down by one each time, and newcomers that find a fresh budget.
fn honest(url: &str, from: u32, goes_on: impl Fn() -> bool) -> (Vec<Duration>, u32) {
    let (mut client, clock) = (Resp::connect(url), MonotonicClock::default());
    let (mut times, mut refused, mut n) = (Vec::new(), 0, from);
    let mut left = client.ask("RL.PEEK honest alice")[2];
    while goes_on() {
        let begun = clock.now();
        let known = client.ask("RL.CHECK honest alice");
        times.push(clock.now().since(begun));
        assert_eq!((known[0], known[2]), (1, left - 1), "{known:?}");
        left -= 1;
        let new = client.ask(&format!("RL.CHECK newcomers n{n}"));
        refused += u32::from(new[..3] != [1, 5, 4]);
        n += 1;
        sleep(Duration::from_micros(500));
    }
    (times, refused)
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}

fn resident_mib(serving: &Serving) -> u64 {
    let pid = serving.pid().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

/// Reserves a thousand lines for a day, again and again, until so many calls were made; returns the last status.
fn reserve_much(http: &str, calls: u32) -> u32 {
    let address = http.trim_start_matches("http://");
    let mut refused = 0;
    for call in 0..calls {
        let checks: Vec<String> = (0..1_000)
            .map(|n| format!("{{\"policy\":\"reserved\",\"key\":\"{call}-{n}\"}}"))
            .collect();
        let body = format!("{{\"ttl\":\"24h\",\"checks\":[{}]}}", checks.join(","));
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /v1/reserve HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        refused += u32::from(!answer.starts_with("HTTP/1.1 201"));
    }
    refused
}

#[test]
fn all_floods_together() {
    let serving = Serving::start(Place::with_config(CONFIG));
    let (resp, http) = (serving.url("resp"), serving.url("http"));
    let clock = MonotonicClock::default();
    let begun = clock.now();
    let (calm, refused) = honest(&resp, 0, || clock.now().since(begun) < CALM);
    assert_eq!(refused, 0);
    let is_flooded = AtomicBool::new(true);
    let (flooded, refused, newcomers) = thread::scope(|scope| {
        let honest =
            scope.spawn(|| honest(&resp, 1_000_000, || is_flooded.load(Ordering::Relaxed)));
        let floods = [
            scope
                .spawn(|| Resp::connect(&resp).flood(600_000, |n| format!("RL.CHECK flooded {n}"))),
            scope.spawn(|| {
                Resp::connect(&resp).flood(250_000, |n| format!("CL.THROTTLE {n} 0 1 3600"))
            }),
            // A thousand keys of up to a thousand entries.
            scope.spawn(|| {
                Resp::connect(&resp).flood(300_000, |n| format!("RL.CHECK logs {}", n % 1_000))
            }),
            scope.spawn(|| Resp::connect(&resp).flood(3_000, |n| format!("CL.THROTTLE x {n} 1 1"))),
            scope.spawn(|| reserve_much(&http, 600)),
            // Silent connections, and unfinished commands of a length that is only announced.
            scope.spawn(|| {
                let silent: Vec<TcpStream> = (0..400)
                    .filter_map(|n| {
                        let mut stream =
                            TcpStream::connect(resp.trim_start_matches("redis://")).ok()?;
                        if n % 2 == 0 {
                            let unfinished = "x".repeat(60_000);
                            let head = format!("*2\r\n$4\r\nECHO\r\n$65536\r\n{unfinished}");
                            stream.write_all(head.as_bytes()).ok()?;
                        }
                        Some(stream)
                    })
                    .collect();
                sleep(Duration::from_secs(3));
                u32::try_from(silent.len()).unwrap()
            }),
        ];
        let answered = floods.map(|flood| flood.join().unwrap());
        println!("answered by flood: {answered:?}");
        is_flooded.store(false, Ordering::Relaxed);
        let (times, refused) = honest.join().unwrap();
        let newcomers = times.len();
        (times, refused, newcomers)
    });
    let most = resident_mib(&serving);
    println!(
        "p99 calm {:?}, flooded {:?}; {refused} of {newcomers} newcomers refused; at most {most} MiB",
        p99(calm),
        p99(flooded)
    );
    assert!(newcomers > 100, "the honest client was served all along: {newcomers}");
    assert_eq!(refused, 0, "newcomers of another policy, within its share");
    assert!(most < MOST_MIB, "{most} MiB");
    // Metrics and health are answered, and every flood is over.
    let mut client = serving.client();
    assert_eq!(client.get("/healthz").status, 200);
    assert_eq!(client.get("/metrics").status, 200);
}

//! Policies by the thousand: what one without keys costs, and how long a reload makes a client wait. Alone in its process,
//! because it counts what the process allocates.
//!
//! Pauses are printed and not asserted: other processes make them longer.
//! `WATERCLOCK_POLICIES=50000 cargo test --release -p waterclock-server --test many_policies -- --nocapture`

use std::alloc::System;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cap::Cap;
use tempfile::TempDir;
use waterclock_config::{Config, Listen};
use waterclock_server::observe::Face;
use waterclock_server::{Listeners, Running, Timing};

const ENOUGH: Duration = Duration::from_secs(120);

/// Counts what is allocated: exact, whatever the process once needed and the allocator still holds.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn policies(count: u64, limit: u64) -> String {
    let policy = |n| format!("[policies.policy-{n:05}]\nlimits = [\"{limit}/h\"]\n");
    (0..count).map(policy).collect()
}

/// A client that never stops checking; the longest it waited since it was last asked, in microseconds.
#[expect(clippy::disallowed_methods, reason = "how long a client waits is what is measured")]
fn client(
    address: SocketAddr,
    longest: &Arc<AtomicU64>,
    ends: &Arc<AtomicBool>,
) -> thread::JoinHandle<u64> {
    let (longest, ends) = (Arc::clone(longest), Arc::clone(ends));
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    thread::spawn(move || {
        let (mut replies, mut stream) = (BufReader::new(stream.try_clone().unwrap()), stream);
        let mut checks = 0;
        while !ends.load(Ordering::Relaxed) {
            let asked = Instant::now();
            stream.write_all(b"RL.CHECK policy-00000 key\r\n").unwrap();
            let mut line = String::new();
            for expected in ["*6", ":", ":", ":", ":", ":", ":"] {
                line.clear();
                replies.read_line(&mut line).unwrap();
                assert!(line.starts_with(expected), "{line}");
            }
            let waited = u64::try_from(asked.elapsed().as_micros()).unwrap();
            longest.fetch_max(waited, Ordering::Relaxed);
            checks += 1;
            thread::sleep(Duration::from_micros(100));
        }
        checks
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "how long a client waits is what is measured")]
async fn a_policy_without_keys_costs_4_kib_and_a_reload_of_many_delays_no_client() {
    let count = std::env::var("WATERCLOCK_POLICIES").map_or(10_000, |count| count.parse().unwrap());
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("waterclock.toml");
    std::fs::write(&path, policies(1, 1_000_000)).unwrap();
    let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let listen = Listen { http: None, grpc: None, resp: free };
    let listeners = Listeners::bind(&listen).await.unwrap();
    let address = listeners.address(Face::Resp).unwrap();
    let config = Config::load(&path).unwrap();
    let running = Running::start(config, listeners, Timing::default()).await.unwrap();
    let (longest, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..2).map(|_| client(address, &longest, &ends)).collect();

    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("without a reload: longest wait {} µs", longest.swap(0, Ordering::Relaxed));
    let before = ALLOCATOR.allocated();
    for (number, (what, text)) in [
        ("added", policies(count, 1_000_000)),
        ("changed", policies(count, 2_000_000)),
        ("unchanged", format!("# again\n{}", policies(count, 2_000_000))),
        ("removed", policies(1, 2_000_000)),
    ]
    .into_iter()
    .enumerate()
    {
        longest.store(0, Ordering::Relaxed);
        let started = Instant::now();
        std::fs::write(directory.path().join("new"), text).unwrap();
        std::fs::rename(directory.path().join("new"), &path).unwrap();
        while running.server().reloads().status().generation < number as u64 + 2 {
            assert!(started.elapsed() < ENOUGH, "{what}: not reloaded");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let took = started.elapsed().as_millis();
        // The old plan goes a little later.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let waited = longest.swap(0, Ordering::Relaxed);
        println!("{count} policies {what} in {took} ms: longest wait {waited} µs");
        if what == "added" {
            let server = Arc::clone(running.server());
            let text =
                tokio::task::spawn_blocking(move || server.metrics_text().len()).await.unwrap();
            let waited = longest.swap(0, Ordering::Relaxed);
            println!("{text} bytes of metrics: longest wait {waited} µs");
            let each = ALLOCATOR.allocated().saturating_sub(before) as u64 / count;
            println!("{each} bytes of memory each");
            assert!(each <= 4_096, "{each} bytes for each policy without keys");
        }
    }
    ends.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.join().unwrap() > 0);
    }
    running.stop().await;
}

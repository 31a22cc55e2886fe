//! SIGTERM at full load: every request gets an answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::Signal;

use super::client::Client;
use super::process::Serving;
use crate::support::Place;

const CLIENTS: usize = 16;

#[derive(Default)]
struct Seen {
    answered: AtomicU64,
    lost: AtomicU64,
    not_ready: AtomicBool,
}

/// Sends requests as fast as it can, on one connection if possible, until the listener is closed.
fn load(address: SocketAddr, seen: &Seen) {
    while let Ok(mut client) = Client::connect(address) {
        loop {
            let body = r#"{"policy":"p","key":"k"}"#;
            let Some(answer) = client.ask("POST", "/v1/check", &[], body) else {
                seen.lost.fetch_add(1, Ordering::Relaxed);
                break;
            };
            assert_eq!(answer.status, 200, "{}", answer.text);
            seen.answered.fetch_add(1, Ordering::Relaxed);
            if answer.says_goodbye() {
                break;
            }
        }
    }
}

/// What a balancer does.
fn watch(address: SocketAddr, seen: &Seen) {
    while let Ok(mut client) = Client::connect(address) {
        let Some(answer) = client.ask("GET", "/readyz", &[], "") else { break };
        if answer.status == 503 {
            seen.not_ready.store(true, Ordering::Relaxed);
        }
        sleep(Duration::from_millis(20));
    }
}

fn one_round() {
    let text = "[policies.p]\nlimits = [\"1000000000/s\"]\n";
    let mut serving = Serving::start(Place::with_config(text));
    let seen = Arc::new(Seen::default());
    let address = serving.http;
    let mut threads: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let seen = Arc::clone(&seen);
            thread::spawn(move || load(address, &seen))
        })
        .collect();
    let watcher = Arc::clone(&seen);
    threads.push(thread::spawn(move || watch(address, &watcher)));
    sleep(Duration::from_millis(200));
    serving.signal(Signal::TERM);
    let status = serving.ended();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(status.code(), Some(0), "{}", serving.log());
    assert_eq!(seen.lost.load(Ordering::Relaxed), 0, "requests without an answer");
    assert!(seen.answered.load(Ordering::Relaxed) > 100);
    assert!(seen.not_ready.load(Ordering::Relaxed), "it was ready to the end");
    assert!(!serving.log().contains("did not finish in time"), "{}", serving.log());
}

#[test]
fn no_request_is_lost() {
    let rounds = if std::env::var_os("WATERCLOCK_HURRY").is_some() { 3 } else { 20 };
    (0..rounds).for_each(|_| one_round());
}

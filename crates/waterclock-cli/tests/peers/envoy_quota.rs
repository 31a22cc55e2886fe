//! Envoy with quota: it decides itself, with units that Waterclock hands out.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use waterclock_conformance::real::await_that;

use crate::deployed::{self, Ports};
use crate::edge::Edge;
use crate::envoy::with_file;
use crate::visitor::Visitor;

fn envoy(folder: &Path, ports: &Ports) -> Command {
    with_file(&deployed::copy("envoy/quota.yaml", folder, ports))
}

/// `per-client` of `deploy/waterclock.toml`: 20 at once, and one a second.
const CAPACITY: f64 = 20.0;
/// What one proxy may hold for so long after it was charged: 10 s, and 2 s on the way.
const HELD: f64 = 12.0;
/// Requests before the first assignment: those of one round trip, one after the other on a busy machine.
const BEFORE: f64 = 20.0;

#[test]
#[expect(clippy::disallowed_methods, reason = "real proxies live in real time")]
fn holds_the_limit_with_quota() {
    let edge = Edge::start(envoy);
    let (visitor, started) = (Visitor::at(2), Instant::now());
    let (mut passed, mut refused) = (0_u32, 0_u32);
    // Longer than an assignment lives: it is renewed, and stays in force.
    let goes_on = |refused: u32| match started.elapsed().as_secs() {
        ..25 => true,
        25..120 => refused == 0,
        _ => false,
    };
    while goes_on(refused) {
        match edge.get(visitor, "/").status {
            200 => passed += 1,
            429 => refused += 1,
            other => panic!("{other}"),
        }
        let bound = CAPACITY + started.elapsed().as_secs_f64() + HELD + BEFORE;
        assert!(f64::from(passed) <= bound, "{passed} passed where {bound} may");
        sleep(Duration::from_millis(20));
    }
    assert!(passed >= 10 && refused > 0, "{passed} passed, {refused} were refused");
    let metrics = edge.server.get("/metrics").body;
    assert!(metrics.contains("waterclock_rlqs_streams 1"), "{metrics}");
    assert!(
        !metrics.contains("waterclock_rlqs_assignments_total{kind=\"units\"} 0\n"),
        "{metrics}"
    );
    // Logins are checked one by one, over the same port: a client that has quota left gets five.
    let guest = Visitor::at(3);
    let mut logins = 0;
    await_that("logins are refused by ShouldRateLimit", || {
        let answer = edge.get(guest, "/login");
        logins += u32::from(answer.status == 200);
        sleep(Duration::from_millis(50));
        answer.header("x-envoy-ratelimited").is_some()
    });
    assert!(logins <= 5, "{logins}");
    edge.server.stop();
}

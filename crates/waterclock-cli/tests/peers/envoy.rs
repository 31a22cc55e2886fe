//! Envoy, over gRPC.

use std::path::Path;
use std::process::Command;

use crate::deployed::{self, Ports};
use crate::edge::{ANY_PAGE, Edge, LOGIN};
use crate::installed::peer;
use crate::visitor::Visitor;

fn envoy(folder: &Path, ports: &Ports) -> Command {
    with_file(&deployed::copy("envoy/envoy.yaml", folder, ports))
}

/// Envoy with a configuration, which it refuses to start with if a field of it is unknown.
pub(crate) fn with_file(file: &Path) -> Command {
    let mut command = peer("python/bin/envoy");
    // Several Envoys on one machine would otherwise take each other for their predecessors.
    command.args(["--disable-hot-restart", "--concurrency", "1", "-l", "warn", "-c"]).arg(file);
    command
}

#[test]
fn refuses_what_is_too_much() {
    let edge = Edge::start(envoy);
    let allowed = edge.get(Visitor::at(3), "/");
    assert_eq!(allowed.number("x-ratelimit-remaining"), 19);
    // What the policy tells its clients reaches them as well.
    assert_eq!(allowed.header("ratelimit"), Some("\"per-client.burst\";r=19;t=19"));
    assert_eq!(allowed.header("retry-after"), None);

    let refusal = edge.exhaust(Visitor::at(2), &ANY_PAGE);
    assert_eq!(refusal.number("x-ratelimit-remaining"), 0);
    let limit = refusal.header("x-ratelimit-limit").unwrap_or_default();
    assert!(limit.starts_with("60, 60;w=60"), "{refusal:?}");
    assert!(refusal.number("x-ratelimit-reset") > 0);
    assert_eq!(refusal.header("x-envoy-ratelimited"), Some("true"));
    assert_eq!(refusal.number("retry-after"), 1);
    edge.server.stop();
}

/// A login is charged to two policies at once; the headers show the stricter one.
#[test]
fn asks_about_two_policies_at_once() {
    let edge = Edge::start(envoy);
    let visitor = Visitor::at(2);
    let refusal = edge.exhaust(visitor, &LOGIN);
    assert_eq!(refusal.number("x-ratelimit-remaining"), 0);
    assert!((1..=1200).contains(&refusal.number("retry-after")));
    // Refusals charge nothing anywhere: five logins and this page are all that was spent, and what
    // came back since.
    assert!(edge.get(visitor, "/").number("x-ratelimit-remaining") >= 14);
    edge.server.stop();
}

#[test]
fn knows_its_visitors() {
    Edge::start(envoy).knows_its_visitors();
}

#[test]
fn survives_a_crash() {
    Edge::start(envoy).survives_a_crash(503);
}

#[test]
fn survives_a_hang() {
    Edge::start(envoy).survives_a_hang(503);
}

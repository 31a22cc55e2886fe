//! Traefik, with ForwardAuth.

use std::path::Path;
use std::process::Command;

use crate::deployed::{self, Ports};
use crate::edge::{ANY_PAGE, Edge, LOGIN};
use crate::installed::peer;
use crate::visitor::Visitor;

fn traefik(folder: &Path, ports: &Ports) -> Command {
    deployed::copy("traefik/dynamic.yaml", folder, ports);
    deployed::copy("traefik/traefik.yaml", folder, ports);
    let mut command = peer("python/bin/traefik");
    command.arg("--configFile=traefik.yaml").current_dir(folder);
    command
}

#[test]
fn refuses_what_is_too_much() {
    let edge = Edge::start(traefik);
    let refusal = edge.exhaust(Visitor::at(2), &ANY_PAGE);
    assert_eq!(refusal.number("retry-after"), 1);
    assert_eq!(refusal.header("ratelimit-policy"), Some("\"per-client.burst\";q=20;w=20"));
    assert_eq!(refusal.header("ratelimit"), Some("\"per-client.burst\";r=0;t=1"));

    let refusal = edge.exhaust(Visitor::at(2), &LOGIN);
    assert!((1..=1200).contains(&refusal.number("retry-after")));
    assert_eq!(refusal.header("ratelimit"), None, "the policy tells when to retry, and no more");
    edge.server.stop();
}

#[test]
fn knows_its_visitors() {
    Edge::start(traefik).knows_its_visitors();
}

#[test]
fn survives_a_crash() {
    Edge::start(traefik).survives_a_crash(500);
}

//! Traefik, with ForwardAuth.

use std::path::Path;
use std::process::Command;

use crate::deployed::{self, Ports};
use crate::edge::Edge;
use crate::installed::peer;

fn traefik(folder: &Path, ports: &Ports) -> Command {
    deployed::copy("traefik/dynamic.yaml", folder, ports);
    deployed::copy("traefik/traefik.yaml", folder, ports);
    let mut command = peer("python/bin/traefik");
    command.arg("--configFile=traefik.yaml").current_dir(folder);
    command
}

#[test]
fn refuses_what_is_too_much() {
    Edge::start(traefik).refuses_what_is_too_much();
}

#[test]
fn knows_its_visitors() {
    Edge::start(traefik).knows_its_visitors();
}

#[test]
fn survives_a_crash() {
    Edge::start(traefik).survives_a_crash(500);
}

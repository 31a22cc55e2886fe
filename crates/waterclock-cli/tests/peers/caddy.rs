//! Caddy, with `forward_auth`.

use std::path::Path;
use std::process::Command;

use crate::deployed::{self, Ports};
use crate::edge::Edge;
use crate::installed::peer;

fn caddy(folder: &Path, ports: &Ports) -> Command {
    let file = deployed::copy("caddy/Caddyfile", folder, ports);
    let mut command = peer("python/bin/caddy");
    command.args(["run", "--config"]).arg(file);
    // What it keeps between two runs, it keeps in the folder.
    command.env("HOME", folder).env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME");
    command
}

#[test]
fn refuses_what_is_too_much() {
    Edge::start(caddy).refuses_what_is_too_much();
}

#[test]
fn knows_its_visitors() {
    Edge::start(caddy).knows_its_visitors();
}

#[test]
fn survives_a_crash() {
    Edge::start(caddy).survives_a_crash(502);
}

#[test]
fn survives_a_hang() {
    Edge::start(caddy).survives_a_hang(504);
}

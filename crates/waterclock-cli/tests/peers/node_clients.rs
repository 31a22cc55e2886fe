//! ioredis and node-redis, as applications use them: what they expect is written in their scripts.

use std::process::Command;

use crate::installed::{peer, peer_path};
use crate::script;
use crate::server::Server;

fn node(name: &str, port: u16, protocol: &str) -> Command {
    let mut command = peer("node");
    command.env("NODE_PATH", peer_path("node_modules"));
    command.arg(script::path(name)).args([&port.to_string(), protocol]);
    command
}

#[test]
fn ioredis() {
    let server = Server::start();
    script::run(&mut node("ioredis.js", server.resp, "2"));
    script::run(&mut node("ioredis.js", server.resp, "3"));
    server.stop();
}

#[test]
fn node_redis() {
    let server = Server::start();
    script::run(&mut node("node_redis.js", server.resp, "2"));
    script::run(&mut node("node_redis.js", server.resp, "3"));
    server.stop();
}

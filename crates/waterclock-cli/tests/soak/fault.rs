//! What is done to servers and their Redis while clients call.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::server::Server;
use crate::work::Work;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// `kill -9`, and a new one on the same port, empty.
    RedisKilled,
    /// `SIGSTOP`, and `SIGCONT`.
    RedisPaused,
    ScriptFlush,
    /// Redis closes every connection, again and again.
    ClientsKilled,
    GoodReload,
    BadReload,
    /// `SIGTERM`, and started again.
    ServerRestarted,
    /// `kill -9`, and started again.
    ServerKilled,
    ServerPaused,
    /// Connections that say nothing, or half of something.
    Silent,
    /// Connections that say nonsense, or end in the middle.
    Rude,
    /// A server is killed and started again while Redis is paused.
    Both,
}

pub(crate) const FAULTS: [Fault; 13] = [
    Fault::RedisKilled,
    Fault::ServerRestarted,
    Fault::Rude,
    Fault::RedisPaused,
    Fault::GoodReload,
    Fault::ClientsKilled,
    Fault::ServerKilled,
    Fault::Silent,
    Fault::ScriptFlush,
    Fault::BadReload,
    Fault::ServerPaused,
    Fault::Both,
    Fault::None,
];

/// How long most faults last.
const WHILE: Duration = Duration::from_millis(1_200);
/// Half of a request, for each face.
const HALVES: [&[u8]; 3] = [
    b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 30\r\n\r\n{",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04",
    b"*4\r\n$8\r\nRL.CHECK\r\n$6\r\nstr",
];

impl Fault {
    /// Does it, and ends it. Connections that stay open until the round is over are returned.
    pub(crate) fn happen(self, work: &Work<'_>, rng: &mut Rng) -> Vec<TcpStream> {
        let redis = &work.stage.redis;
        let server = &work.stage.servers[rng.usize(..work.stage.servers.len())];
        match self {
            Fault::None => sleep(WHILE),
            Fault::RedisKilled => {
                let from = work.history.now();
                redis.kill();
                sleep(WHILE);
                redis.restart();
                work.history.lost((from, work.history.now()));
            }
            Fault::RedisPaused => {
                redis.pause();
                sleep(WHILE);
                redis.resume();
            }
            Fault::ScriptFlush => (0..6).for_each(|_| {
                redis.command(&["SCRIPT", "FLUSH"]);
                sleep(WHILE / 6);
            }),
            Fault::ClientsKilled => (0..3).for_each(|_| {
                redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
                sleep(WHILE / 3);
            }),
            Fault::GoodReload => good_reload(work),
            Fault::BadReload => bad_reload(work, server),
            Fault::ServerRestarted => {
                server.stop();
                server.start_again();
            }
            Fault::ServerKilled => {
                server.kill();
                sleep(WHILE / 4);
                server.start_again();
            }
            Fault::ServerPaused => {
                server.pause();
                sleep(WHILE);
                server.resume();
            }
            Fault::Both => {
                redis.pause();
                sleep(WHILE / 4);
                server.kill();
                server.start_again();
                sleep(WHILE / 2);
                redis.resume();
            }
            Fault::Silent => return silent(server),
            Fault::Rude => rude(server, rng),
        }
        Vec::new()
    }
}

/// A policy more, which must be there soon, and gone again. Always the same: Redis keeps its definition.
fn good_reload(work: &Work<'_>) {
    let name = "more";
    let text = work.stage.configuration(&format!("[policies.{name}]\nlimits = [\"9/s\"]\n"));
    work.stage.servers.iter().for_each(|server| server.write(&text));
    for (status, text) in [(200, None), (404, Some(work.stage.configuration("")))] {
        if let Some(text) = text {
            work.stage.servers.iter().for_each(|server| server.write(&text));
        }
        for i in 0..work.stage.servers.len() {
            let path = format!("/v1/policies/{name}");
            let says = || work.admin(i, "GET", &path, &Value::Null) == Some(status);
            if !soon(says) {
                work.history.complain(&format!("server {i} does not reload: not {status}"));
            }
        }
    }
}

/// Nonsense, which a server must refuse and go on without.
fn bad_reload(work: &Work<'_>, server: &Server) {
    server.write("[policies.strict]\nlimits = [\"many\"]\n");
    let i = work.stage.servers.iter().position(|one| std::ptr::eq(&**one, server)).expect("ours");
    let last = |ok: bool| {
        let answer = work.ask(i, "GET", "/v1/config", &Value::Null);
        answer.is_some_and(|(_, body)| body["last_reload"]["success"] == ok)
    };
    if !soon(|| last(false)) {
        work.history.complain(&format!("server {i} does not say that a reload failed"));
    }
    server.write(&work.stage.configuration(""));
    if !soon(|| last(true)) {
        work.history.complain(&format!("server {i} does not get over a reload that failed"));
    }
}

fn silent(server: &Server) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for (port, half) in [server.http, server.grpc, server.resp].into_iter().zip(HALVES) {
        for i in 0..20 {
            let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
            if i % 2 == 0 {
                _ = stream.write_all(half);
            }
            open.push(stream);
        }
    }
    sleep(WHILE);
    open
}

fn rude(server: &Server, rng: &mut Rng) {
    for (port, half) in [server.http, server.grpc, server.resp].into_iter().zip(HALVES) {
        for i in 0..20 {
            let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
            _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
            let mut nonsense = [0; 64];
            rng.fill(&mut nonsense);
            let bytes = if i % 2 == 0 { half } else { &nonsense };
            _ = stream.write_all(bytes);
            // Ends with what it was sent unread, which resets the connection; or after a look.
            if i % 4 == 0 {
                _ = stream.read(&mut nonsense);
            }
        }
    }
}

/// Whether something holds within the time that nothing takes that works.
pub(crate) fn soon(mut holds: impl FnMut() -> bool) -> bool {
    for _ in 0..600 {
        if holds() {
            return true;
        }
        sleep(Duration::from_millis(50));
    }
    false
}

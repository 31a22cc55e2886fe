//! A server for one test, on free ports.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};
use waterclock_config::{Config, Listen};
use waterclock_server::observe::Face;
use waterclock_server::{Listeners, Patience, Room, Running, Timing};

use crate::client::Client;
use crate::patience::eventually;

/// A server at work. Everything it listens on is loopback, on ports of its own.
pub(crate) struct AtWork {
    pub(crate) running: Running,
    http: SocketAddr,
    grpc: SocketAddr,
    resp: SocketAddr,
}

/// Stops at once. It is as patient as in production, because test machines are busy.
pub(crate) fn hurried() -> Timing {
    Timing {
        lame_duck: Duration::ZERO,
        quiet: Duration::from_millis(50),
        drain: Duration::from_secs(5),
        live_every: Duration::from_millis(100),
        patience: Patience::default(),
        room: Room::default(),
    }
}

impl AtWork {
    /// Serves the text of a configuration.
    pub(crate) async fn serving(text: &str) -> AtWork {
        AtWork::with(Config::read("test.toml", text).expect("valid"), hurried()).await
    }

    /// The same, with a connection to the HTTP face.
    pub(crate) async fn with_client(text: &str) -> (AtWork, Client) {
        let server = AtWork::serving(text).await;
        let client = server.http().await;
        (server, client)
    }

    /// Serves a file, which may change.
    pub(crate) async fn serving_file(path: &Path) -> AtWork {
        AtWork::with(Config::load(path).expect("valid"), hurried()).await
    }

    /// Serves the text of a configuration where a server has been before.
    pub(crate) async fn serving_at(http: SocketAddr, text: &str) -> AtWork {
        let config = Config::read("test.toml", text).expect("valid");
        let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        AtWork::at(Listen { http: Some(http), grpc: free, resp: free }, config, hurried()).await
    }

    pub(crate) async fn with(config: Config, timing: Timing) -> AtWork {
        let free = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        AtWork::at(Listen { http: free, grpc: free, resp: free }, config, timing).await
    }

    async fn at(listen: Listen, config: Config, timing: Timing) -> AtWork {
        let listeners = Listeners::bind(&listen).await.expect("free ports");
        let address = |face| listeners.address(face).expect("bound");
        let (http, grpc, resp) = (address(Face::Http), address(Face::Grpc), address(Face::Resp));
        let running = Running::start(config, listeners, timing).await.expect("starts");
        AtWork { running, http, grpc, resp }
    }

    /// Waits until a face has no connections: none may stay open forever.
    pub(crate) async fn has_no_connections(&self, face: Face) {
        let connections = self.running.server().engine.metrics().connections(face);
        eventually("no connection is open", async || connections.get() == 0).await;
    }

    /// A new connection to the HTTP face.
    pub(crate) async fn http(&self) -> Client {
        Client::connect(self.http).await
    }

    pub(crate) fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// Where a face listens.
    pub(crate) fn address(&self, face: Face) -> SocketAddr {
        match face {
            Face::Http => self.http_address(),
            Face::Grpc => self.grpc_address(),
            Face::Resp => self.resp_address(),
        }
    }

    pub(crate) fn grpc_address(&self) -> SocketAddr {
        self.grpc
    }

    pub(crate) fn resp_address(&self) -> SocketAddr {
        self.resp
    }
}

/// Tokens with a role each, as a file has them: hashed.
pub(crate) fn auth(tokens: &[(&str, &str)]) -> String {
    let entry = |(token, role): &(&str, &str)| {
        format!("{{ token = \"sha256:{:x}\", roles = [\"{role}\"] }}", Sha256::digest(token))
    };
    let entries: Vec<String> = tokens.iter().map(entry).collect();
    format!("[server]\nauth = [{}]\n", entries.join(", "))
}

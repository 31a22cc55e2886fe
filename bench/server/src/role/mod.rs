//! What this program is when it is not the comparison: a peer that has no server of its own on the
//! registry, a floor, or the compiler that another peer's build asks for.

mod echo;
pub mod floor;
pub mod layered;
mod limitador_grpc;
mod limitador_http;
mod protoc;
mod quota;
pub mod tower_governor;

use std::path::Path;
use std::process::Command;

use crate::Error;
use crate::process::Launch;

pub use self::protoc::stand_in_for_protoc;

/// Servers that this program can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// axum that answers 204 to everything.
    Floor,
    /// The same behind our layer.
    Layered,
    /// The same behind tower_governor.
    TowerGovernor,
    /// limitador's library behind axum.
    LimitadorHttp,
    /// tonic that answers OK to everything.
    Echo,
    /// limitador's library behind tonic.
    LimitadorGrpc,
}

impl Peer {
    const ALL: [Self; 6] = [
        Self::Floor,
        Self::Layered,
        Self::TowerGovernor,
        Self::LimitadorHttp,
        Self::Echo,
        Self::LimitadorGrpc,
    ];

    fn name(self) -> String {
        format!("{self:?}")
    }

    pub fn launch(self, itself: &Path) -> Launch {
        let itself = itself.to_owned();
        Box::new(move |port, _| {
            let mut command = Command::new(&itself);
            command.args([SERVE, &self.name(), &port.to_string()]);
            Ok(command)
        })
    }
}

const SERVE: &str = "serve-as";

pub enum Role {
    Serve(Peer, u16),
    Protoc,
}

/// `None`: it compares.
pub fn of_this_process() -> Option<Role> {
    if protoc::is_asked_for() {
        return Some(Role::Protoc);
    }
    let mut args = std::env::args().skip(1);
    if args.next()? != SERVE {
        return None;
    }
    let name = args.next()?;
    let peer = Peer::ALL.into_iter().find(|peer| peer.name() == name)?;
    Some(Role::Serve(peer, args.next()?.parse().ok()?))
}

pub fn play(role: &Role) -> Result<(), Error> {
    match role {
        Role::Protoc => protoc::compile(std::env::args().skip(1)),
        Role::Serve(peer, port) => {
            // The same kind of runtime as the others, with one thread per available core.
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(serve(*peer, *port))
        }
    }
}

async fn serve(peer: Peer, port: u16) -> Result<(), Error> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    match peer {
        Peer::Floor => floor::serve(listener, floor::app()).await,
        Peer::Layered => layered::serve(listener).await,
        Peer::TowerGovernor => tower_governor::serve(listener).await,
        Peer::LimitadorHttp => limitador_http::serve(listener).await,
        Peer::Echo => echo::serve(listener).await,
        Peer::LimitadorGrpc => limitador_grpc::serve(listener).await,
    }
}

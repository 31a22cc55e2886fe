//! One connection that asks, in the protocol of its face.

mod grpc;
mod http;
mod reply;
mod resp;

use super::keys::Keys;
use super::load::Load;
use crate::server::NoAnswer;
use waterclock_server::observe::Face;

/// What one call has brought: decisions, and checks that the server could not decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) allowed: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    /// Allowed, because no limit applies at all.
    pub(super) unlimited: u64,
}

/// A connection of one face.
pub(super) enum Caller {
    Http(http::HttpCaller),
    Grpc(grpc::GrpcCaller),
    Resp(resp::RespCaller),
}

impl Caller {
    pub(super) async fn connect(load: &Load) -> Result<Caller, NoAnswer> {
        Ok(match load.server.address.face {
            Face::Http => Caller::Http(http::HttpCaller::connect(load).await?),
            Face::Grpc => Caller::Grpc(grpc::GrpcCaller::connect(load).await?),
            Face::Resp => Caller::Resp(resp::RespCaller::connect(load).await?),
        })
    }

    /// Asks so many checks at once and waits for all answers.
    pub(super) async fn call(&mut self, keys: &mut Keys, many: u64) -> Result<Answers, NoAnswer> {
        match self {
            Caller::Http(caller) => caller.call(keys, many).await,
            Caller::Grpc(caller) => caller.call(keys).await,
            Caller::Resp(caller) => caller.call(keys, many).await,
        }
    }
}

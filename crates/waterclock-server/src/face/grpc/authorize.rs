//! Who may ask.

use std::net::{IpAddr, Ipv4Addr};

use tonic::{Request, Status};

use crate::access::{Attempt, Role, bearer};
use crate::observe::Face;
use crate::server::Server;

/// Where a request comes from; the connection puts it into every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Peer(pub(super) IpAddr);

/// Whether the request's bearer token may ask for decisions.
pub(super) fn authorize<T>(server: &Server, request: &Request<T>) -> Result<(), Status> {
    let peer = request.extensions().get::<Peer>();
    let from = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
    let token =
        request.metadata().get("authorization").and_then(|value| bearer(value.to_str().ok()?));
    match server.attempt(Face::Grpc, from, token, Role::Check) {
        Attempt::Granted => Ok(()),
        Attempt::Unknown => {
            Err(Status::unauthenticated("send a known token as `authorization: Bearer …`"))
        }
        Attempt::Forbidden => Err(Status::permission_denied("the token lacks the role `check`")),
        Attempt::Exhausted(wait) => Err(Status::unauthenticated(format!(
            "too many wrong tokens came from this address; try again in {} s",
            wait.as_secs() + 1
        ))),
    }
}

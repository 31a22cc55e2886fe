//! Envoy's rate limit service v3, with health and reflection beside it.
//!
//! A request names a domain and descriptors; the configuration's rules map each descriptor to a policy.
//! All of them are decided together: a refused request changes nothing.
//!
//! - `hits_addend` of the request applies to every descriptor without its own; 0 counts as 1.
//! - A descriptor's own `hits_addend` of 0 is a peek: over the limit if not one unit is left.
//! - `is_negative_hits` is a refund, made after everything else was admitted.
//! - A descriptor's `limit` replaces the numbers of the policy that its rule names, for this call; both share what was
//!   spent. 0 requests per unit refuses. A descriptor without a rule, or with an unlimited one, stays unlimited.
//! - A refused descriptor is `OVER_LIMIT`; the others of its request are `OK`, though not charged.

mod connection;
mod descriptors;
mod health;
pub mod proto;
mod request;
mod response;

pub(crate) use self::connection::serve;

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder;

use self::descriptors::decide;
use self::health::Phases;
use self::proto::{RateLimitRequest, RateLimitResponse, RateLimitService, RateLimitServiceServer};
use self::request::{MAX_DESCRIPTORS, MAX_MESSAGE};
use self::response::{refusal, response};
use crate::access::{Attempt, Role, bearer};
use crate::observe::Face;
use crate::places::Guest;
use crate::server::Server;

/// The services, cloned by every connection.
pub(crate) fn routes(server: &Arc<Server>) -> Routes {
    let rate_limit = RateLimitServiceServer::new(Service { server: Arc::clone(server) })
        .max_decoding_message_size(MAX_MESSAGE);
    let routes =
        Routes::new(rate_limit).add_service(HealthServer::new(Phases::new(server.phase())));
    let reflection = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Our own descriptors are valid; without reflection the service would still work.
    let routes = match reflection().build_v1() {
        Ok(v1) => routes.add_service(v1),
        Err(_) => routes,
    };
    match reflection().build_v1alpha() {
        Ok(v1alpha) => routes.add_service(v1alpha),
        Err(_) => routes,
    }
    .prepare()
}

struct Service {
    server: Arc<Server>,
}

#[tonic::async_trait]
impl RateLimitService for Service {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let _place = self.server.admit(Face::Grpc).ok_or_else(|| {
            Status::resource_exhausted("the server is overloaded; nothing was decided")
        })?;
        let request = request.into_inner();
        let found = request.descriptors.len();
        if found > MAX_DESCRIPTORS {
            let why = format!("it has {found} descriptors, more than {MAX_DESCRIPTORS}; refused");
            self.server.engine.count_undecided(Face::Grpc, &why);
            return Ok(Response::new(refusal()));
        }
        let descriptors = request::read(&request).inspect_err(|status| {
            self.server.engine.count_undecided(Face::Grpc, status.message());
        })?;
        // One plan for the whole request, so that a reload does not change it half way.
        let plan = Arc::clone(&self.server.engine.plan());
        let outcomes = decide(&self.server, &plan, &request.domain, &descriptors).await?;
        Ok(Response::new(response(&outcomes)))
    }
}

/// Whether the bearer token of a request has the role `check`.
async fn authorize(server: &Server, headers: &HeaderMap, guest: &Guest) -> Result<(), Status> {
    let token = headers.get(AUTHORIZATION).and_then(|value| bearer(value.to_str().ok()?));
    let client = || server.client(guest.peer.ip(), headers).0;
    let attempt = server.attempt(Face::Grpc, token, Role::Check, client);
    match attempt {
        Attempt::Granted | Attempt::Forbidden => guest.confirm(),
        Attempt::Guessed => server.delay_guess().await,
        Attempt::Unknown => {}
    }
    match attempt {
        Attempt::Granted => Ok(()),
        Attempt::Unknown | Attempt::Guessed => {
            Err(Status::unauthenticated("send a known token as `authorization: Bearer …`"))
        }
        Attempt::Forbidden => Err(Status::permission_denied("the token lacks the role `check`")),
    }
}

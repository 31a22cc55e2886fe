//! Envoy's rate limit service v3, with health and reflection beside it.
//!
//! A request names a domain and descriptors; the configuration's rules say which policy each
//! descriptor is charged to. All of them are decided together: a refused request changes nothing.
//!
//! - `hits_addend` of the request goes for every descriptor without one of its own; 0 is 1 there.
//! - A descriptor's own `hits_addend` of 0 is a peek: over the limit if not even one unit is left.
//! - `is_negative_hits` gives back, after everything else has been admitted.
//! - A descriptor's `limit` stands in for the numbers of the policy that its rule names; what was
//!   spent under one is spent under the other. 0 requests per unit refuses. A descriptor without a
//!   rule, or with one that is unlimited, stays unlimited.
//! - A refused descriptor is `OVER_LIMIT`; those that only stood back for it are `OK`.

mod authorize;
mod connection;
mod decide;
mod failure;
mod headers;
mod health;
mod metadata;
mod preface;
pub mod proto;
mod rate_limit;
mod request;
mod status;
mod unit;

pub(crate) use self::connection::serve;

use std::sync::Arc;

use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder;

use self::health::Phases;
use self::proto::RateLimitServiceServer;
use self::rate_limit::RateLimit;
use self::request::MAX_MESSAGE;
use crate::server::Server;

/// The services, for every connection to clone.
pub(crate) fn routes(server: &Arc<Server>) -> Routes {
    let rate_limit = RateLimitServiceServer::new(RateLimit::new(Arc::clone(server)))
        .max_decoding_message_size(MAX_MESSAGE);
    let routes =
        Routes::new(rate_limit).add_service(HealthServer::new(Phases::new(server.phase())));
    let reflection = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Our own descriptors are sound; without reflection there would still be service.
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

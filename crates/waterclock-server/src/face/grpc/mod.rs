//! Envoy's rate limit service v3 and its quota service ([`rlqs`]), with Kuadrant's, our own, health and reflection beside them.
//!
//! A request names a domain and descriptors; the configuration's rules map each descriptor to a policy.
//! All of them are decided together: a refused request changes nothing.
//!
//! - `hits_addend` of the request applies to every descriptor without its own; 0 counts as 1.
//! - A descriptor's own `hits_addend` of 0 is a peek: over the limit if not one unit is left.
//! - `is_negative_hits` is a refund, made after everything else was admitted.
//! - A descriptor's `limit` replaces the numbers of the policy that its rule names, for this call; both share what was
//!   spent. 0 requests per unit refuses. A descriptor without a rule, or with an unlimited one, stays unlimited.
//! - Several rules may apply to one descriptor (`match = "contains"`): its status is that of the one which binds.
//! - Kuadrant's service asks the same with `CheckRateLimit`, which charges nothing, and bills with `Report`.
//! - A refused descriptor is `OVER_LIMIT`; the others of its request are `OK`, though not charged.

mod aside;
mod call;
mod connection;
mod contained;
mod descriptors;
mod health;
mod metadata;
pub mod proto;
mod rate_limiter;
mod request;
mod response;
mod rlqs;
mod size;

pub(crate) use self::call::decide_alone;
pub(crate) use self::connection::serve;
pub(crate) use self::rlqs::Quotas;
pub(crate) use self::size::each_field;

use std::sync::Arc;

use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder;

use self::aside::{MAX_HEALTH, MAX_REFLECTION};
use self::health::Phases;
use crate::server::Server;

/// Answers a call of one of our services, whatever its body came over.
#[cfg(feature = "fuzzing")]
pub(crate) async fn answer(
    server: &Arc<Server>,
    request: http::Request<impl self::call::CallBody>,
    guest: &Arc<crate::connections::Guest>,
) -> http::Response<self::connection::AnyBody> {
    let path = request.uri().path();
    let answer = match path {
        proto::rlqs::METHOD => {
            rlqs::answer(server, request, guest).await.map(self::call::AnswerBody::Other)
        }
        path if rate_limiter::is_path(path) => rate_limiter::answer(server, request, guest).await,
        _ => call::answer(server, request, guest).await,
    };
    answer.map(self::connection::AnyBody)
}

/// Health and reflection, cloned by every connection.
pub(crate) fn routes(server: &Arc<Server>) -> Routes {
    let health = HealthServer::new(Phases::new(server.phase()));
    let routes = Routes::new(health.max_decoding_message_size(MAX_HEALTH));
    let reflection = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Our own descriptors are valid; without reflection the service would still work.
    let routes = match reflection().build_v1() {
        Ok(v1) => routes.add_service(v1.max_decoding_message_size(MAX_REFLECTION)),
        Err(_) => routes,
    };
    match reflection().build_v1alpha() {
        Ok(v1alpha) => routes.add_service(v1alpha.max_decoding_message_size(MAX_REFLECTION)),
        Err(_) => routes,
    }
    .prepare()
}

//! `grpc.health.v1`: serving until the server stops taking new work.

use std::pin::Pin;

use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::proto::SERVICES;
use crate::server::Phase;

/// The server's phase as a health status.
pub(super) struct Phases {
    phase: watch::Receiver<Phase>,
}

impl Phases {
    pub(super) fn new(phase: watch::Receiver<Phase>) -> Phases {
        Phases { phase }
    }
}

#[tonic::async_trait]
impl Health for Phases {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if is_known(&request.get_ref().service) {
            Ok(Response::new(health(*self.phase.borrow())))
        } else {
            Err(Status::not_found(format!(
                "unknown service; known are \"\" (the server), {}",
                SERVICES.join(" and ")
            )))
        }
    }

    type WatchStream =
        Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send + 'static>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let is_known = is_known(&request.get_ref().service);
        // A watch must not keep a draining connection open.
        let phases = WatchStream::new(self.phase.clone())
            .take_while(|phase| *phase < Phase::Draining)
            .map(move |phase| Ok(if is_known { health(phase) } else { unknown() }));
        Ok(Response::new(Box::pin(phases)))
    }
}

fn is_known(service: &str) -> bool {
    service.is_empty() || SERVICES.contains(&service)
}

fn health(phase: Phase) -> HealthCheckResponse {
    let status = match phase {
        Phase::Serving => ServingStatus::Serving,
        Phase::LameDuck | Phase::Draining | Phase::Ended => ServingStatus::NotServing,
    };
    HealthCheckResponse { status: status.into() }
}

fn unknown() -> HealthCheckResponse {
    HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() }
}

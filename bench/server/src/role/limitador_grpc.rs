//! limitador's library behind tonic, asked as its own server asks it: descriptors by position.

use std::collections::HashMap;

use limitador::RateLimiter;
use limitador::limit::Context;
use tokio::net::TcpListener;
use tonic::transport::server::{Server, TcpIncoming};
use tonic::{Request, Response, Status};

use super::quota::limiter;
use crate::Error;
use crate::grpc::wire::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use crate::grpc::wire::{RateLimitRequest, RateLimitResponse, answer};

struct Limitador(RateLimiter);

#[tonic::async_trait]
impl RateLimitService for Limitador {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let asked = request.into_inner();
        let many = asked.descriptors.len();
        let values = asked.descriptors.into_iter().map(|descriptor| {
            let entries = descriptor.entries.into_iter();
            entries.map(|entry| (entry.key, entry.value)).collect::<HashMap<_, _>>()
        });
        let mut context = Context::default();
        context.list_binding("descriptors".to_owned(), values.collect());
        let cost = u64::from(asked.hits_addend.max(1));
        let checked = self
            .0
            .check_rate_limited_and_update(&asked.domain.into(), &context, cost)
            .map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Response::new(answer(many, checked.limited)))
    }
}

pub async fn serve(listener: TcpListener) -> Result<(), Error> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let service = RateLimitServiceServer::new(Limitador(limiter("descriptors[0].user")?));
    Ok(Server::builder().add_service(service).serve_with_incoming(incoming).await?)
}

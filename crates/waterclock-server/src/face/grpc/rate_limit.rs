//! The service itself.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::authorize::authorize;
use super::decide::{Outcome, decide};
use super::headers::headers;
use super::metadata::metadata;
use super::proto::{Code, RateLimitRequest, RateLimitResponse, RateLimitService};
use super::status::status;
use super::{failure, request};
use crate::observe::Face;
use crate::server::Server;

pub(super) struct RateLimit {
    server: Arc<Server>,
}

impl RateLimit {
    pub(super) fn new(server: Arc<Server>) -> RateLimit {
        RateLimit { server }
    }
}

#[tonic::async_trait]
impl RateLimitService for RateLimit {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        authorize(&self.server, &request)?;
        let _room = self.server.admit(Face::Grpc).ok_or_else(failure::overloaded)?;
        let request = request.into_inner();
        let asked = request::read(&request)?;
        // One plan for the whole request, so that a reload does not change it half way.
        let plan = Arc::clone(&self.server.engine.plan());
        let outcomes = decide(&self.server, &plan, &request.domain, &asked).await?;
        Ok(Response::new(response(&outcomes)))
    }
}

fn response(outcomes: &[Outcome<'_>]) -> RateLimitResponse {
    let statuses: Vec<_> = outcomes.iter().map(status).collect();
    let refused = statuses.iter().any(|status| status.code() == Code::OverLimit);
    RateLimitResponse {
        overall_code: if refused { Code::OverLimit } else { Code::Ok }.into(),
        statuses,
        response_headers_to_add: headers(outcomes),
        request_headers_to_add: Vec::new(),
        raw_body: Vec::new(),
        dynamic_metadata: metadata(outcomes),
    }
}

//! Envoy's rate limit service, as far as it is asked here.

tonic::include_proto!("envoy.service.ratelimit.v3");

use self::rate_limit_response::{Code, DescriptorStatus};

/// The path of the one call.
pub const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The same for every descriptor.
pub fn answer(descriptors: usize, is_limited: bool) -> RateLimitResponse {
    let code = if is_limited { Code::OverLimit } else { Code::Ok }.into();
    RateLimitResponse { overall_code: code, statuses: vec![DescriptorStatus { code }; descriptors] }
}

/// A question about one user in one domain.
pub fn question(domain: &str, user: &str) -> RateLimitRequest {
    let entry = rate_limit_descriptor::Entry { key: "user".to_owned(), value: user.to_owned() };
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: vec![RateLimitDescriptor { entries: vec![entry] }],
        hits_addend: 1,
    }
}

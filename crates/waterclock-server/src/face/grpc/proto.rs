//! The messages, with a client for tests and tools.

mod messages {
    #![allow(
        missing_docs,
        unreachable_pub,
        rust_2018_idioms,
        clippy::all,
        clippy::cast_possible_truncation,
        clippy::semicolon_if_nothing_returned,
        clippy::uninlined_format_args,
        reason = "generated"
    )]
    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

/// The messages of Waterclock's own service, with a client.
pub mod rate_limiter {
    pub use super::messages::waterclock::v1::rate_limiter_client::RateLimiterClient;
    pub use super::messages::waterclock::v1::{
        CancelRequest, CheckAllRequest, CheckAllResponse, CheckRequest, CommitRequest, Cost,
        Decision, LimitDecision, PolicySnapshot, ReportRequest, Reservation, ReserveRequest,
        ReserveResponse, Settlement, Snapshot, Totals, WaitRequest, WatchRequest,
    };
}

/// A client of Kuadrant's rate limit service, whose messages are Envoy's.
pub mod kuadrant {
    pub use super::messages::kuadrant::service::ratelimit::v1::rate_limit_service_client::RateLimitServiceClient;
}

pub use self::messages::envoy::config::core::v3::HeaderValue;
pub use self::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub use self::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
pub use self::messages::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
pub use self::messages::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
pub use self::messages::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
pub use self::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
pub use self::messages::envoy::r#type::v3::RateLimitUnit;

/// The messages of Envoy's rate limit quota service.
pub mod rlqs {
    pub use super::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::BucketAction;
    pub use super::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_response::bucket_action::{
        AbandonAction, BucketAction as Action, QuotaAssignmentAction,
    };
    pub use super::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_service_client::RateLimitQuotaServiceClient;
    pub use super::messages::envoy::service::rate_limit_quota::v3::rate_limit_quota_usage_reports::BucketQuotaUsage;
    pub use super::messages::envoy::service::rate_limit_quota::v3::{
        BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
    };
    pub use super::messages::envoy::r#type::v3::rate_limit_strategy::{BlanketRule, Strategy};
    pub use super::messages::envoy::r#type::v3::{RateLimitStrategy, TokenBucket};

    /// The path of its method.
    pub(in super::super) const METHOD: &str =
        "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";
}
/// Configuration that is pushed: what Envoy's reference service gets by xDS.
pub use self::messages::envoy::service::discovery::v3::{
    DiscoveryRequest, DiscoveryResponse, Node,
};
pub use self::messages::google::rpc::Status as RpcStatus;
/// Configuration of Envoy's reference service.
pub use self::messages::ratelimit::config::ratelimit::v3 as reference;

/// What reflection tells.
pub(super) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rls.bin"));

/// The service's name on the wire.
pub const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The names of the services that decide.
pub(super) const SERVICES: [&str; 3] =
    [SERVICE, "kuadrant.service.ratelimit.v1.RateLimitService", "waterclock.v1.RateLimiter"];

/// The paths of the methods that take Envoy's request.
pub(super) const SHOULD_RATE_LIMIT: &str =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
pub(super) const CHECK_RATE_LIMIT: &str =
    "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit";
pub(super) const REPORT: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/Report";

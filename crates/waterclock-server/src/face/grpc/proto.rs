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

/// The path of its method.
pub(super) const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

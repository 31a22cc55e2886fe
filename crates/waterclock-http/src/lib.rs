#![doc = include_str!("../docs/guide.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
#[cfg(feature = "client")]
mod client;
mod exchange;
mod fields;
mod key;
mod layer;
mod refusal;
#[cfg(feature = "remote")]
mod remote;
mod rule;

pub use address::{
    AddressError, AddressKey, ClientIp, ForwardedHeader, TrustedProxies, parse_address,
};
#[cfg(feature = "client")]
pub use client::{
    Pace, PaceError, PaceFuture, PaceLayer, Pacer, RetryAfter, RetryAfterError, RetryAfterFuture,
    RetryAfterLayer, advised_wait,
};
pub use exchange::{Ending, Exchange};
pub use fields::{HeaderFields, HeaderStyle, Jitter, StyledAnswer};
pub use key::{Key, KeyError, compose_key};
#[cfg(feature = "axum")]
pub use layer::MakeRateLimit;
pub use layer::{
    BuildError, Charged, Checked, RateLimit, RateLimitConnections, RateLimitLayer,
    RateLimitLayerBuilder, ResponseBody, ResponseFuture,
};
pub use refusal::{Reason, Refusal};
#[cfg(feature = "remote")]
pub use remote::{RemoteStore, RemoteStoreBuilder};
pub use rule::Rule;

/// Tested with this crate, which has all that the page uses.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/migrate/governor.md")]
struct FromGovernor;

/// Tests the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

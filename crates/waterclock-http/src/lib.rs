#![doc = include_str!("../docs/guide.md")]

mod address;
mod at_once;
mod client;
mod exchange;
mod fields;
mod key;
mod layer;
mod refusal;
#[cfg(feature = "remote")]
mod remote;
mod rule;

pub use address::{AddressError, AddressKey, ClientIp, ForwardedHeader, TrustedProxies};
pub use client::{
    Honour, HonourError, HonourFuture, HonourLayer, Pace, PaceError, PaceFuture, PaceLayer, Pacer,
    advised_wait,
};
pub use exchange::{Ending, Exchange};
pub use fields::{Fields, HeaderStyle, Told, fields};
pub use key::{Key, KeyError, compose_key};
#[cfg(feature = "axum")]
pub use layer::MakeRateLimit;
pub use layer::{
    BuildError, Charged, Checked, RateLimit, RateLimitBuilder, RateLimitConnections,
    RateLimitLayer, ResponseBody, ResponseFuture,
};
pub use refusal::{Reason, Refusal};
#[cfg(feature = "remote")]
pub use remote::{RemoteStore, RemoteStoreBuilder};
pub use rule::Rule;

//! Metrics, which never contain a key, and the live feed.

mod durations;
mod history;
mod live;
mod metrics;
mod outage;
mod refused;
mod tally;

pub(crate) use self::history::{Asked, Decided, MAX_POLICIES, Quantiles, Resolution, SECONDS};
pub(crate) use self::live::{Live, Ticks};
pub use self::metrics::Metrics;
pub(crate) use self::outage::Outage;
pub(crate) use self::refused::{KeyFields, Refused, TopRefused};
pub(crate) use self::tally::{Tally, Totals};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Face {
    /// JSON API and forward-auth.
    Http,
    /// Envoy's rate limit service.
    Grpc,
    /// The Redis protocol.
    Resp,
}

impl Face {
    /// All of them, in the order of their numbers.
    pub const ALL: [Face; 3] = [Face::Http, Face::Grpc, Face::Resp];

    /// As a metric's label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Face::Http => "http",
            Face::Grpc => "grpc",
            Face::Resp => "resp",
        }
    }
}

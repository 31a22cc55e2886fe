//! What the server says about itself: metrics, never with a key in them; and what is going on just now.

mod live;
mod metrics;
mod refused;
mod tally;
mod tick;

pub(crate) use self::live::Live;
pub use self::metrics::Metrics;
pub(crate) use self::refused::{Refused, TopRefused};
pub(crate) use self::tally::{Tally, Totals};
pub(crate) use self::tick::Ticks;

/// Who translates.
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

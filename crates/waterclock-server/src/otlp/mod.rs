//! OpenTelemetry: spans of sampled callers and the numbers of `/metrics`, sent to a collector over OTLP.
//!
//! Off unless the standard variables name a collector. Decisions never wait for it: spans go into a bounded queue, and what
//! does not fit is counted and dropped. Keys are in none of it.
//!
//! Written by hand over `prost`, without the SDK: that counts metrics itself, and cannot export histograms which were counted
//! elsewhere. So it would count every decision a second time.

mod export;
mod messages;
mod numbers;
mod send;
mod settings;
mod spans;

pub use self::settings::Settings;

pub(crate) use self::export::export;
pub(crate) use self::spans::{Span, Tracer, in_digits, traced};

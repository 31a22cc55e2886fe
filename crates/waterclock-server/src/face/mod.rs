//! Translators: from a protocol to asks of the engine, and back.

mod charge;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod resp;

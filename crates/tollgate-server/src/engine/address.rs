//! Keys that are addresses of clients.

use std::borrow::Cow;
use std::net::IpAddr;

use tollgate_http::ClientIp;

/// The field whose value is the address of a client.
pub const ADDRESS_FIELD: &str = "client_ip";

/// The one spelling of an address, whoever wrote it; other texts as they are.
#[must_use]
pub fn address_key(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.parse::<IpAddr>() {
        Ok(address) => ClientIp::default().group(address).to_string().into(),
        Err(_) => text,
    }
}

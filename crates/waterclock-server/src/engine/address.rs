//! Keys that are addresses of clients.

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;
use waterclock_http::ClientIp;

/// The field whose value is the address of a client.
pub(super) const ADDRESS_FIELD: &str = "client_ip";

/// The one spelling of an address, grouped, whoever wrote it; other texts as they are.
pub(super) fn address_key(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.parse::<IpAddr>() {
        Ok(address) => ClientIp::default().group(address).to_string().into(),
        Err(_) => text,
    }
}

/// The address that a text names, by itself or as the first of a group.
pub(super) fn read_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let grouped = || text.parse::<IpNet>().ok().map(|network| network.addr());
    text.parse().ok().or_else(grouped).map(|address: IpAddr| address.to_canonical())
}

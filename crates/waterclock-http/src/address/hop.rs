//! One hop: an address, in the many ways in which proxies write it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `203.0.113.7`, `203.0.113.7:4711`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:4711`, each of the
/// latter with a zone (`%eth0`). Ports and zones say nothing about who it is and are left out.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
    let address: IpAddr = if let Some(inner) = text.strip_prefix('[') {
        let (address, port) = inner.split_once(']')?;
        if !port.is_empty() {
            accept_port(port.strip_prefix(':')?)?;
        }
        ipv6(address)?.into()
    } else {
        match text.split_once(':') {
            None => text.parse::<Ipv4Addr>().ok()?.into(),
            // With a second colon it is an IPv6 address; without brackets that has no port.
            Some((_, rest)) if rest.contains(':') => ipv6(text)?.into(),
            Some((address, port)) => {
                accept_port(port)?;
                address.parse::<Ipv4Addr>().ok()?.into()
            }
        }
    };
    Some(address.to_canonical())
}

fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let address = match text.split_once('%') {
        Some((_, "")) => return None,
        Some((address, _zone)) => address,
        None => text,
    };
    address.parse().ok()
}

fn accept_port(text: &str) -> Option<()> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    (digits && text.parse::<u16>().is_ok()).then_some(())
}

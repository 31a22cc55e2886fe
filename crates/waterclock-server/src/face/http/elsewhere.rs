//! Requests that a browser sends for a page of somebody else.
//!
//! Where no token is needed, everybody who reaches the listener may ask; and a browser on the same machine
//! reaches it for every page it shows. Such a page may send requests, though it cannot read the answers; and
//! if the name it came from suddenly leads to this machine (DNS rebinding), it can read them as well. Browsers
//! say enough to tell both from the dashboard. Others (proxies, programs, `curl`) say none of this.

use std::net::IpAddr;

use http::request::Parts;
use http::{HeaderMap, StatusCode, header};

use super::guard::peer_of;
use super::problem::Problem;
use crate::access::Role;

const SITE: &str = "sec-fetch-site";

/// Refuses what a browser asks for another page than the dashboard.
pub(super) fn no_other_pages(parts: &Parts, role: Role) -> Result<(), Problem> {
    let headers = &parts.headers;
    if let Some(site) = headers.get(SITE) {
        // Told over TLS and on the loopback only, where no name can be rebound.
        let is_ours = site == "same-origin" || site == "none";
        return if is_ours { Ok(()) } else { Err(from_elsewhere()) };
    }
    let host = host_of(parts);
    let is_browser = match headers.get(header::ORIGIN) {
        Some(origin) => {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            let is_ours = origin.is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host));
            if !is_ours {
                return Err(from_elsewhere());
            }
            true
        }
        // A page that reads from where it believes to come from says nothing but its languages.
        None => role == Role::Read && speaks(headers),
    };
    if is_browser && peer_of(parts).is_loopback() && !is_loopback(host) {
        let detail = "a browser must ask for this machine as `localhost` or by its loopback address, \
            unless tokens are configured";
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    Ok(())
}

fn from_elsewhere() -> Problem {
    let detail = "a page from elsewhere must not ask, unless tokens are configured";
    Problem::new(StatusCode::FORBIDDEN, detail)
}

/// Every browser does, whatever is asked for; programs do not.
fn speaks(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ACCEPT_LANGUAGE)
}

/// With the port, if there is one.
fn host_of(parts: &Parts) -> &str {
    let said = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    said.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default()
}

fn is_loopback(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let labels = name.strip_suffix('.').unwrap_or(name);
    let last = labels.rsplit('.').next().unwrap_or_default();
    let address = name.parse::<IpAddr>();
    last.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        for host in [
            "localhost",
            "LocalHost:8080",
            "a.localhost:1",
            "localhost.",
            "127.0.0.1",
            "127.8.9.1:80",
            "[::1]:8080",
            "[::1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "notlocalhost",
            "10.0.0.1:80",
            "0.0.0.0:8080",
            "[2001:db8::1]:80",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}

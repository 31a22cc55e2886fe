//! The addresses of stores.

use super::wording::quoted;

/// Half a sentence.
const MUST_BE: &str =
    "must be \"memory:\", or begin with redis://, rediss://, redis-cluster:// or redis-sentinel://";

/// The last two are TLS to each server of the kind.
const SCHEMES: &[&str] = &[
    "redis://",
    "rediss://",
    "redis-cluster://",
    "redis-sentinel://",
    "rediss-cluster://",
    "rediss-sentinel://",
];

/// Where state lives.
#[derive(Debug, PartialEq, Eq)]
pub enum Address {
    /// In this process.
    Memory,
    /// On the Redis servers of this URL.
    Redis(String),
}

impl Address {
    /// Nothing if it is the address of no store.
    pub fn parse(url: &str) -> Option<Address> {
        let has_host =
            |scheme: &&str| url.strip_prefix(*scheme).is_some_and(|rest| !rest.is_empty());
        match url {
            "memory:" => Some(Address::Memory),
            _ if SCHEMES.iter().any(has_host) => Some(Address::Redis(url.to_owned())),
            _ => None,
        }
    }
}

/// What is wrong with an address that is none, in half a sentence. What was looked up elsewhere may
/// be a secret that got into the wrong place, and is not repeated.
pub fn not_an_address(url: &str, looked_up: bool) -> String {
    if looked_up {
        return format!("{MUST_BE}; what was looked up does neither");
    }
    format!("{MUST_BE}; found {}", quoted(&without_login(url)))
}

/// The URL without its user name and password.
fn without_login(url: &str) -> String {
    let Some((login, host)) = url.rsplit_once('@') else { return url.to_owned() };
    match login.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…@{host}"),
        None => format!("…@{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(Address::parse("memory:"), Some(Address::Memory));
        for url in ["redis://h", "rediss://h:1/2", "redis-cluster://a,b", "rediss-sentinel://a/s"] {
            assert_eq!(Address::parse(url), Some(Address::Redis(url.to_owned())));
        }
        for url in ["", "memory", "redis://", "redis:/h", "mysql://h", "Redis://h"] {
            assert_eq!(Address::parse(url), None, "{url}");
        }
    }
}

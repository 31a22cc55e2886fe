//! Where a server listens, as people write it.

use std::fmt;

use waterclock_config::quoted;
use waterclock_server::observe::Face;

/// A face, what it is called in plain text and in TLS, and its usual port.
type Usual = (Face, [&'static str; 2], u16);

const FACES: [Usual; 3] = [
    (Face::Http, ["http", "https"], 8080),
    (Face::Grpc, ["grpc", "grpcs"], 8081),
    (Face::Resp, ["redis", "rediss"], 6380),
];

/// A face of a server at a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    pub(crate) face: Face,
    /// Whether TLS is spoken there.
    pub(crate) tls: bool,
    /// A name or an address; one of IPv6 without its brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl ServerAddress {
    /// `http://127.0.0.1:8080`, `grpc://127.0.0.1:8081` or `redis://127.0.0.1:6380`; with one more `s` it is TLS.
    /// Without a scheme it is HTTP, and without a port the one that `waterclock serve` chooses. The error is a
    /// whole sentence.
    pub(crate) fn parse(text: &str) -> Result<ServerAddress, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let scheme = scheme.to_ascii_lowercase();
        let is_it = |(.., [plain, tls], _): &&Usual| [*plain, *tls].contains(&scheme.as_str());
        let &(face, [_, tls], usual_port) =
            FACES.iter().find(is_it).ok_or_else(|| not_an_address(text))?;
        if rest.contains('@') {
            let sentence = "an address must not carry a user or a password; put the token into WATERCLOCK_TOKEN or a file for --token-file";
            return Err(sentence.to_owned());
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = split(rest).ok_or_else(|| not_an_address(text))?;
        let port = match port {
            None => usual_port,
            Some(port) => port.parse().map_err(|_| not_an_address(text))?,
        };
        Ok(ServerAddress { face, tls: scheme == tls, host: host.to_owned(), port })
    }

    /// The address, if it is one of HTTP: for what only HTTP answers.
    pub(crate) fn parse_http(text: &str) -> Result<ServerAddress, String> {
        match ServerAddress::parse(text)? {
            address if address.face == Face::Http => Ok(address),
            _ => Err(format!(
                "only HTTP answers this; write http://HOST:PORT instead of {}",
                quoted(text)
            )),
        }
    }

    /// The address, if it is one of the Redis protocol.
    pub(crate) fn parse_resp(text: &str) -> Result<ServerAddress, String> {
        match ServerAddress::parse(text)? {
            address if address.face == Face::Resp => Ok(address),
            _ => Err(format!(
                "only the Redis protocol answers this; write redis://HOST:PORT instead of {}",
                quoted(text)
            )),
        }
    }

    /// What an address of this face begins with, in TLS or in plain text.
    pub(crate) fn scheme(&self, tls: bool) -> &'static str {
        let usual = FACES.iter().find(|(face, ..)| *face == self.face);
        usual.map_or("", |(_, schemes, _)| schemes[usize::from(tls)])
    }

    /// `host:port`, as sockets and header fields have it.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(self.tls), self.authority())
    }
}

/// Host and port; nothing if it is neither.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            let port = after.strip_prefix(':');
            if port.is_none() && !after.is_empty() {
                return None;
            }
            (host, port)
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_host = |character: char| character.is_alphanumeric() || ".-_:%".contains(character);
    (!host.is_empty() && host.chars().all(is_host)).then_some((host, port))
}

fn not_an_address(text: &str) -> String {
    format!(
        "{} is not a server's address; write http://HOST:PORT, grpc://HOST:PORT or redis://HOST:PORT",
        quoted(text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        for (text, shown) in [
            ("http://127.0.0.1:9", "http://127.0.0.1:9"),
            ("localhost", "http://localhost:8080"),
            ("localhost:7/", "http://localhost:7"),
            ("grpc://[::1]", "grpc://[::1]:8081"),
            ("redis://[::1]:5", "redis://[::1]:5"),
            ("HTTP://Example.com:9", "http://Example.com:9"),
            ("Redis://h", "redis://h:6380"),
            ("HTTPS://h", "https://h:8080"),
            ("grpcs://h:1", "grpcs://h:1"),
            ("rediss://h", "rediss://h:6380"),
        ] {
            assert_eq!(
                ServerAddress::parse(text).map(|address| address.to_string()),
                Ok(shown.to_owned())
            );
        }
    }

    #[test]
    fn what_they_should_not() {
        for (text, part) in [
            ("httpss://h", "is not a server's address"),
            ("redi://h", "is not a server's address"),
            ("http://user:secret@h", "must not carry"),
            ("http://h/v1/check", "is not a server's address"),
            ("http://h:99999", "is not a server's address"),
            ("http://", "is not a server's address"),
            ("http://[::1", "is not a server's address"),
            ("http://a b", "is not a server's address"),
            ("gopher://h", "is not a server's address"),
        ] {
            let problem = ServerAddress::parse(text).unwrap_err();
            assert!(problem.contains(part), "{text}: {problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
        assert!(ServerAddress::parse_http("redis://h").is_err());
        assert!(ServerAddress::parse_resp("http://h").is_err());
    }
}

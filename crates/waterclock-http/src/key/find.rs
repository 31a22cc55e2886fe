//! Finding a key in one request.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use matchit::Params;
use percent_encoding::percent_decode_str;

use super::{Key, KeyError, MAX_KEY, Source, compose_key};

/// Everything that a key can be found in.
pub(crate) struct KeyInput<'a> {
    pub(crate) parts: &'a Parts,
    /// The address of the connection's peer.
    pub(crate) peer: Option<IpAddr>,
    /// The parameters captured by the rule's path.
    pub(crate) captured: Option<Params<'a, 'a>>,
}

/// The key of a request, or a part of it.
#[derive(Default)]
pub(crate) struct FoundKey {
    pub(crate) key: Vec<u8>,
    /// The client's address, if the key is made of it. Lists name single addresses; keys are shared by groups
    /// of them.
    pub(crate) address: Option<IpAddr>,
}

impl From<Vec<u8>> for FoundKey {
    fn from(key: Vec<u8>) -> Self {
        Self { key, address: None }
    }
}

impl FoundKey {
    fn marked(self, mark: u8) -> Self {
        Self { key: [&[mark], &*self.key].concat(), ..self }
    }
}

impl Key {
    /// The key of a request.
    pub(crate) async fn find(&self, input: &KeyInput<'_>) -> Result<FoundKey, KeyError> {
        match self.find_part(input).await? {
            found if found.key.len() <= MAX_KEY => Ok(found),
            found => Err(KeyError::TooLong(found.key.len())),
        }
    }

    /// Only keys made of others need boxes, and only [`Key::from_async_fn`] ever waits.
    async fn find_part(&self, input: &KeyInput<'_>) -> Result<FoundKey, KeyError> {
        let headers = &input.parts.headers;
        let value = match &self.0 {
            Source::Everyone => Ok(Vec::new()),
            Source::Address(client_ip) => match input.peer {
                Some(peer) => {
                    let address = client_ip.address(peer, headers);
                    let key = client_ip.group(address).to_string().into_bytes();
                    return Ok(FoundKey { key, address: Some(address.to_canonical()) });
                }
                // Builders make sure that there is one.
                None => missing("the address of its client"),
            },
            Source::Header(name) => match headers.get(name) {
                Some(value) => Ok(value.as_bytes().to_vec()),
                None => missing(format!("the header `{name}`")),
            },
            Source::InvalidHeader(name) => missing(format!("the header `{name}`")),
            Source::Bearer(subject) => bearer_token(headers)
                .and_then(|token| subject(token))
                .map_or_else(|| missing("a bearer token"), Ok),
            Source::Path(name) => match input.captured.as_ref().and_then(|found| found.get(name)) {
                Some(value) => Ok(percent_decode_str(value).collect()),
                None => missing(format!("the parameter `{name}` of its path")),
            },
            Source::Function(find) => {
                find(input.parts).map_or_else(|| missing("a key of its own"), Ok)
            }
            Source::AsyncFunction(find) => {
                find(input.parts).await.map_or_else(|| missing("a key of its own"), Ok)
            }
            Source::All(keys) => {
                let mut values = Vec::with_capacity(keys.len());
                let mut address = None;
                for key in &**keys {
                    let found = Box::pin(key.find_part(input)).await?;
                    address = address.or(found.address);
                    values.push(found.key);
                }
                return Ok(FoundKey { key: compose_key(&values), address });
            }
            // The first byte says which of the two it is, so that neither can pass for the other.
            Source::Either(keys) => {
                return Ok(match Box::pin(keys.0.find_part(input)).await {
                    Ok(found) => found.marked(b'+'),
                    Err(_) => Box::pin(keys.1.find_part(input)).await?.marked(b'-'),
                });
            }
        };
        value.map(FoundKey::from)
    }
}

/// The token of `Authorization: Bearer …`. The scheme's name is case-insensitive.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn missing(what: impl Into<Cow<'static, str>>) -> Result<Vec<u8>, KeyError> {
    Err(KeyError::Missing(what.into()))
}

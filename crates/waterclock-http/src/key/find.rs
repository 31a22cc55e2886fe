//! Finding a key in one request.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use matchit::Params;
use percent_encoding::percent_decode_str;

use super::{Key, KeyBytes, KeyError, MAX_KEY, Source, compose_key};

/// Everything that a key can be found in.
pub(crate) struct KeyInput<'a, 'c> {
    pub(crate) parts: &'a Parts,
    /// The address of the connection's peer.
    pub(crate) peer: Option<IpAddr>,
    /// The parameters captured by the rule's path.
    pub(crate) captured: Option<&'c Params<'a, 'a>>,
}

/// The key of a request, or a part of it.
#[derive(Default)]
pub(crate) struct FoundKey<'a> {
    pub(crate) key: KeyBytes<'a>,
    /// The client's address, if the key is made of it. Lists name single addresses; keys are shared by groups
    /// of them.
    pub(crate) address: Option<IpAddr>,
}

impl<'a> FoundKey<'a> {
    fn new(key: impl Into<KeyBytes<'a>>) -> Self {
        Self { key: key.into(), address: None }
    }

    fn marked(self, mark: u8) -> Self {
        Self { key: [&[mark], &*self.key].concat().into(), ..self }
    }

    #[inline]
    fn within_bounds(self) -> Result<Self, KeyError> {
        match self.key.len() {
            ..=MAX_KEY => Ok(self),
            bytes => Err(KeyError::TooLong(bytes)),
        }
    }
}

impl Key {
    /// The key of a request, if finding it cannot wait and takes no other keys: most are found here.
    #[inline]
    pub(crate) fn find_now<'a>(
        &self,
        input: &KeyInput<'a, '_>,
    ) -> Option<Result<FoundKey<'a>, KeyError>> {
        // The shortest way for what most keys are.
        if let Source::Header(name) = &self.0
            && let Some(value) = input.parts.headers.get(name)
            && value.len() <= MAX_KEY
        {
            let key = KeyBytes::Borrowed(value.as_bytes());
            return Some(Ok(FoundKey { key, address: None }));
        }
        Some(self.find_simple(input)?.and_then(FoundKey::within_bounds))
    }

    /// The key of a request.
    pub(crate) async fn find<'a>(
        &self,
        input: &KeyInput<'a, '_>,
    ) -> Result<FoundKey<'a>, KeyError> {
        self.find_part(input).await?.within_bounds()
    }

    /// `None` for a key that is made of others or may wait.
    fn find_simple<'a>(&self, input: &KeyInput<'a, '_>) -> Option<Result<FoundKey<'a>, KeyError>> {
        let headers = &input.parts.headers;
        let own = |key: Vec<u8>| Ok(FoundKey::new(key));
        Some(match &self.0 {
            Source::Everyone => Ok(FoundKey::default()),
            Source::Address(client_ip) => match input.peer {
                Some(peer) => {
                    let address = client_ip.address(peer, headers);
                    let key = client_ip.group(address).into();
                    Ok(FoundKey { key, address: Some(address.to_canonical()) })
                }
                // Builders make sure that there is one.
                None => missing("the address of its client"),
            },
            Source::Header(name) => match headers.get(name) {
                Some(value) => {
                    Ok(FoundKey { key: KeyBytes::Borrowed(value.as_bytes()), address: None })
                }
                None => missing(format!("the header `{name}`")),
            },
            Source::InvalidHeader(name) => missing(format!("the header `{name}`")),
            Source::Bearer(subject) => bearer_token(headers)
                .and_then(|token| subject(token))
                .map_or_else(|| missing("a bearer token"), own),
            Source::Path(name) => match input.captured.and_then(|found| found.get(name)) {
                Some(value) => {
                    let value: Vec<u8> = percent_decode_str(value).collect();
                    own(value)
                }
                None => missing(format!("the parameter `{name}` of its path")),
            },
            Source::Function(find) => {
                find(input.parts).map_or_else(|| missing("a key of its own"), own)
            }
            Source::AsyncFunction(_) | Source::All(_) | Source::Either(_) => return None,
        })
    }

    /// Only keys made of others need boxes, and only [`Key::from_async_fn`] ever waits.
    async fn find_part<'a>(&self, input: &KeyInput<'a, '_>) -> Result<FoundKey<'a>, KeyError> {
        if let Some(found) = self.find_simple(input) {
            return found;
        }
        match &self.0 {
            Source::AsyncFunction(find) => match find(input.parts).await {
                Some(key) => Ok(FoundKey::new(key)),
                None => missing("a key of its own"),
            },
            Source::All(keys) => {
                let mut values = Vec::with_capacity(keys.len());
                let mut address = None;
                for key in &**keys {
                    let found = Box::pin(key.find_part(input)).await?;
                    address = address.or(found.address);
                    values.push(found.key);
                }
                Ok(FoundKey {
                    key: compose_key(values.iter().map(|value| &**value)).into(),
                    address,
                })
            }
            // The first byte says which of the two it is, so that neither can pass for the other.
            Source::Either(keys) => Ok(match Box::pin(keys.0.find_part(input)).await {
                Ok(found) => found.marked(b'+'),
                Err(_) => Box::pin(keys.1.find_part(input)).await?.marked(b'-'),
            }),
            // Found above.
            _ => missing("a key of its own"),
        }
    }
}

/// The token of `Authorization: Bearer …`. The scheme's name is case-insensitive.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn missing<T>(what: impl Into<Cow<'static, str>>) -> Result<T, KeyError> {
    Err(KeyError::Missing(what.into()))
}

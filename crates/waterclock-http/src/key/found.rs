//! Looking for a key in one request.

use std::pin::Pin;

use http::request::Parts;
use matchit::Params;
use percent_encoding::percent_decode_str;

use super::{Key, KeyError, MAX_KEY, Peer, Source, bearer, compose_key};

/// What a key may be found in.
pub(crate) struct Seen<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) peer: Peer,
    /// What the rule's path captured.
    pub(crate) captured: Option<Params<'a, 'a>>,
}

type Looked = Result<Vec<u8>, KeyError>;

/// Found, or not; or it takes a while.
pub(crate) enum Found<'a> {
    Now(Looked),
    Later(Pin<Box<dyn Future<Output = Looked> + Send + 'a>>),
}

impl Found<'_> {
    async fn wait(self) -> Looked {
        match self {
            Found::Now(looked) => looked,
            Found::Later(looking) => looking.await,
        }
    }

    /// The key, if it is not too long for one.
    pub(crate) async fn in_bounds(self) -> Looked {
        match self.wait().await? {
            key if key.len() <= MAX_KEY => Ok(key),
            key => Err(KeyError::TooLong(key.len())),
        }
    }
}

impl Key {
    pub(crate) fn find<'a>(&'a self, seen: &'a Seen<'a>) -> Found<'a> {
        let found = match &self.0 {
            Source::Everyone => Ok(Vec::new()),
            Source::Address(client_ip) => match seen.peer {
                Some(peer) => Ok(client_ip.key(peer, &seen.parts.headers).to_string().into_bytes()),
                // Builders see to it that there is one.
                None => missing("the address of its client"),
            },
            Source::Header(name) => match seen.parts.headers.get(name) {
                Some(value) => Ok(value.as_bytes().to_vec()),
                None => missing(format!("the header `{name}`")),
            },
            Source::NoHeader(name) => missing(format!("the header `{name}`")),
            Source::Bearer(subject) => bearer::token(&seen.parts.headers)
                .and_then(|token| subject(token))
                .map_or_else(|| missing("a bearer token"), Ok),
            Source::Path(name) => match seen.captured.as_ref().and_then(|found| found.get(name)) {
                Some(value) => Ok(percent_decode_str(value).collect()),
                None => missing(format!("the parameter `{name}` of its path")),
            },
            Source::Function(find) => {
                find(seen.parts).map_or_else(|| missing("a key of its own"), Ok)
            }
            Source::Later(find) => {
                let finding = find(seen.parts);
                return Found::Later(Box::pin(async move {
                    finding.await.map_or_else(|| missing("a key of its own"), Ok)
                }));
            }
            Source::All(keys) => return find_all(keys, seen),
            Source::Either(keys) => return find_either(&keys.0, &keys.1, seen),
        };
        Found::Now(found)
    }
}

fn find_all<'a>(keys: &'a [Key], seen: &'a Seen<'a>) -> Found<'a> {
    let mut values = Vec::with_capacity(keys.len());
    for (at, key) in keys.iter().enumerate() {
        match key.find(seen) {
            Found::Now(Ok(value)) => values.push(value),
            Found::Now(Err(missing)) => return Found::Now(Err(missing)),
            Found::Later(looking) => {
                return Found::Later(Box::pin(async move {
                    values.push(looking.await?);
                    for key in &keys[at + 1..] {
                        values.push(key.find(seen).wait().await?);
                    }
                    Ok(compose_key(&values))
                }));
            }
        }
    }
    Found::Now(Ok(compose_key(&values)))
}

/// Each is marked with which of them it is, so that neither can pass for the other.
fn find_either<'a>(first: &'a Key, second: &'a Key, seen: &'a Seen<'a>) -> Found<'a> {
    let marked = |mark: u8, looked: Looked| {
        looked.map(|mut key| {
            key.insert(0, mark);
            key
        })
    };
    match first.find(seen) {
        Found::Now(Ok(key)) => Found::Now(marked(b'+', Ok(key))),
        Found::Now(Err(_)) => match second.find(seen) {
            Found::Now(looked) => Found::Now(marked(b'-', looked)),
            Found::Later(looking) => {
                Found::Later(Box::pin(async move { marked(b'-', looking.await) }))
            }
        },
        Found::Later(looking) => Found::Later(Box::pin(async move {
            match looking.await {
                Ok(key) => marked(b'+', Ok(key)),
                Err(_) => marked(b'-', second.find(seen).wait().await),
            }
        })),
    }
}

fn missing(what: impl Into<std::borrow::Cow<'static, str>>) -> Looked {
    Err(KeyError::Missing(what.into()))
}

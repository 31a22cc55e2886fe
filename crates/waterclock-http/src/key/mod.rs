//! The key of a request: what requests that share a budget have in common.

mod bytes;
mod find;

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;

use crate::address::ClientIp;
pub(crate) use bytes::KeyBytes;
pub(crate) use find::{FoundKey, KeyInput};

/// The longest key, in bytes.
const MAX_KEY: usize = 1_024;

type FoundLater = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;
/// A function that finds a key in something.
type FindIn<T> = Arc<dyn Fn(&T) -> Option<Vec<u8>> + Send + Sync>;

/// What requests that share a budget have in common.
///
/// ```
/// use waterclock_http::{ClientIp, Key};
///
/// # fn subject_of(token: &str) -> Option<String> { None }
/// // Each user of each tenant; unauthenticated clients by their address.
/// let user = Key::all([Key::header("x-tenant"), Key::bearer(|token| subject_of(token))]);
/// let key = user.or(ClientIp::behind(["10.0.0.0/8"])?);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// A request without its key is answered with 400 and a sentence that says what is missing.
#[derive(Clone)]
pub struct Key(Source);

#[derive(Clone)]
enum Source {
    Everyone,
    Address(ClientIp),
    Header(HeaderName),
    /// A name that no header field can have; building a layer with it fails.
    InvalidHeader(Box<str>),
    Bearer(FindIn<str>),
    Path(Box<str>),
    Function(FindIn<Parts>),
    AsyncFunction(Arc<dyn Fn(&Parts) -> FoundLater + Send + Sync>),
    All(Arc<[Key]>),
    Either(Arc<(Key, Key)>),
}

/// Why a request has no key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The request lacks this.
    Missing(Cow<'static, str>),
    /// The key has this many bytes, which is too many.
    TooLong(usize),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => {
                write!(f, "this request is limited by {what}, which it does not have")
            }
            Self::TooLong(bytes) => write!(
                f,
                "what this request is limited by must be at most {MAX_KEY} bytes long; found {bytes}"
            ),
        }
    }
}

impl std::error::Error for KeyError {}

impl Key {
    /// One budget for all requests together.
    #[must_use]
    pub fn everyone() -> Self {
        Self(Source::Everyone)
    }

    /// The value of a header field: its first line, as sent.
    ///
    /// A client that can choose the value can choose its budget: something in front of the layer must make
    /// sure that the field is genuine.
    #[must_use]
    pub fn header(name: &str) -> Self {
        Self(match HeaderName::try_from(name) {
            Ok(name) => Source::Header(name),
            Err(_) => Source::InvalidHeader(name.into()),
        })
    }

    /// The subject of the token in `Authorization: Bearer …`.
    ///
    /// The function must verify the token and return `None` if it cannot: a subject that is only read from
    /// a token can be forged.
    #[must_use]
    pub fn bearer<S: Into<Vec<u8>>>(
        subject: impl Fn(&str) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        Self(Source::Bearer(Arc::new(move |token| subject(token).map(Into::into))))
    }

    /// A parameter of the rule's path: `id` of [`Rule::path`](crate::Rule::path)`("/users/{id}")`.
    ///
    /// Percent-encoding is decoded, so that one user has one key however the path spells it.
    #[must_use]
    pub fn path(parameter: &str) -> Self {
        Self(Source::Path(parameter.into()))
    }

    /// A value that an outer layer put into the request's extensions.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static, K: Into<Vec<u8>>>(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
    ) -> Self {
        Self::from_fn(move |parts| parts.extensions.get::<T>().map(&key))
    }

    /// The result of a function of the request.
    #[must_use]
    pub fn from_fn<K: Into<Vec<u8>>>(
        key: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        Self(Source::Function(Arc::new(move |parts| key(parts).map(Into::into))))
    }

    /// The result of an asynchronous function. It copies what it needs of the request before it waits.
    #[must_use]
    pub fn from_async_fn<K, F>(key: impl Fn(&Parts) -> F + Send + Sync + 'static) -> Self
    where
        K: Into<Vec<u8>>,
        F: Future<Output = Option<K>> + Send + 'static,
    {
        let find = move |parts: &Parts| -> FoundLater {
            let finding = key(parts);
            Box::pin(async move { finding.await.map(Into::into) })
        };
        Self(Source::AsyncFunction(Arc::new(find)))
    }

    /// All of these together, joined by [`compose_key`], so that no client can pass for another by sending
    /// a separator.
    #[must_use]
    pub fn all(keys: impl IntoIterator<Item = Key>) -> Self {
        Self(Source::All(keys.into_iter().collect()))
    }

    /// This key, or the other if a request does not have it.
    ///
    /// The two never share a budget: the key starts with `+` for the first and `-` for the second. A
    /// server's `block`, `exempt` and `overrides` lists do not match such keys; use one kind of key with
    /// those. The lists of a layer's own [`Scope`](waterclock::Scope) match the client's address, if it is
    /// part of the key.
    #[must_use]
    pub fn or(self, other: impl Into<Key>) -> Self {
        Self(Source::Either(Arc::new((self, other.into()))))
    }

    /// All sources it is made of.
    fn sources(&self) -> Vec<&Source> {
        match &self.0 {
            Source::All(keys) => keys.iter().flat_map(Key::sources).collect(),
            Source::Either(keys) => [&keys.0, &keys.1].into_iter().flat_map(Key::sources).collect(),
            source => vec![source],
        }
    }

    /// Whether finding it may wait.
    pub(crate) fn is_async(&self) -> bool {
        self.sources().iter().any(|source| matches!(source, Source::AsyncFunction(_)))
    }

    /// Whether it needs the address of the connection's peer.
    pub(crate) fn needs_peer(&self) -> bool {
        self.sources().iter().any(|source| matches!(source, Source::Address(_)))
    }

    /// The first invalid name of a header field.
    pub(crate) fn invalid_header(&self) -> Option<&str> {
        self.sources().into_iter().find_map(|source| match source {
            Source::InvalidHeader(name) => Some(&**name),
            _ => None,
        })
    }

    /// The path parameters it is made of.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.sources().into_iter().filter_map(|source| match source {
            Source::Path(name) => Some(&**name),
            _ => None,
        })
    }
}

impl From<ClientIp> for Key {
    fn from(client_ip: ClientIp) -> Self {
        Self(Source::Address(client_ip))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Everyone => f.write_str("everyone"),
            Source::Address(_) => f.write_str("client_ip"),
            Source::Header(name) => write!(f, "header {name}"),
            Source::InvalidHeader(name) => write!(f, "header {name}"),
            Source::Bearer(_) => f.write_str("bearer"),
            Source::Path(name) => write!(f, "path {name}"),
            Source::Function(_) => f.write_str("function"),
            Source::AsyncFunction(_) => f.write_str("async function"),
            Source::All(keys) => f.debug_list().entries(&**keys).finish(),
            Source::Either(keys) => write!(f, "{:?} or {:?}", keys.0, keys.1),
        }
    }
}

/// Joins several values into one key. Each is preceded by its length, so that no value can pass for two.
///
/// ```
/// assert_eq!(waterclock_http::compose_key(["a", "b,1:c"]), b"1:a,5:b,1:c,");
/// ```
#[must_use]
pub fn compose_key(values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    // Enough for most keys, so that they do not grow step by step.
    let mut key = Vec::with_capacity(64);
    for value in values {
        let value = value.as_ref();
        key.extend_from_slice(itoa::Buffer::new().format(value.len()).as_bytes());
        key.push(b':');
        key.extend_from_slice(value);
        key.push(b',');
    }
    key
}

#[cfg(test)]
mod tests {
    use super::compose_key;

    #[test]
    fn no_value_passes_for_two() {
        assert_ne!(compose_key(["a", "b"]), compose_key(["a,1:b"]));
        assert_ne!(compose_key(["", "ab"]), compose_key(["ab", ""]));
        assert_eq!(compose_key(["é", ""]), "2:é,0:,".as_bytes());
    }
}

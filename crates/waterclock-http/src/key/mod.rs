//! What shares a budget, found in a request.

mod bearer;
mod compose;
mod found;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;

use crate::address::ClientIp;
pub use compose::compose_key;
pub(crate) use found::{Found, Seen};

/// The longest key, in bytes.
const MAX_KEY: usize = 1_024;

type Later = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;
/// A function that finds a key in something, or does not.
type In<T> = Arc<dyn Fn(&T) -> Option<Vec<u8>> + Send + Sync>;

/// What requests that share a budget have in common.
///
/// ```
/// use waterclock_http::{ClientIp, Key};
///
/// # fn subject_of(token: &str) -> Option<String> { None }
/// // Each user of each tenant; strangers by their address.
/// let user = Key::all([Key::header("x-tenant"), Key::bearer(|token| subject_of(token))]);
/// let key = user.or(ClientIp::behind(["10.0.0.0/8"])?);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// A request without its key is answered with 400 and a sentence about what is missing.
#[derive(Clone)]
pub struct Key(Source);

#[derive(Clone)]
enum Source {
    Everyone,
    Address(ClientIp),
    Header(HeaderName),
    /// A name that no header field can have; there will be no layer with it.
    NoHeader(Box<str>),
    Bearer(In<str>),
    Path(Box<str>),
    Function(In<Parts>),
    Later(Arc<dyn Fn(&Parts) -> Later + Send + Sync>),
    All(Arc<[Key]>),
    Either(Arc<(Key, Key)>),
}

/// Why a request has no key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// It does not have what it goes by.
    Missing(Cow<'static, str>),
    /// So many bytes are too many.
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

    /// The value of a header field: its first line, as it was sent.
    ///
    /// Whoever can choose the value can choose the budget: let something before the layer see to it that
    /// the field is genuine.
    #[must_use]
    pub fn header(name: &str) -> Self {
        Self(match HeaderName::try_from(name) {
            Ok(name) => Source::Header(name),
            Err(_) => Source::NoHeader(name.into()),
        })
    }

    /// Whom the token of `Authorization: Bearer …` belongs to.
    ///
    /// The function must verify the token; what it cannot verify has no subject. A subject that is only
    /// read from a token is one that a client made up.
    #[must_use]
    pub fn bearer<S: Into<Vec<u8>>>(
        subject: impl Fn(&str) -> Option<S> + Send + Sync + 'static,
    ) -> Self {
        Self(Source::Bearer(Arc::new(move |token| subject(token).map(Into::into))))
    }

    /// A parameter of the rule's path: `id` of [`Rule::path`](crate::Rule::path)`("/users/{id}")`. Percent
    /// signs are decoded, so that one user has one key however the path spells it.
    #[must_use]
    pub fn path(parameter: &str) -> Self {
        Self(Source::Path(parameter.into()))
    }

    /// Something that an earlier layer left in the request's extensions.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static, K: Into<Vec<u8>>>(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
    ) -> Self {
        Self::from_fn(move |parts| parts.extensions.get::<T>().map(&key))
    }

    /// Whatever this function makes of a request.
    #[must_use]
    pub fn from_fn<K: Into<Vec<u8>>>(
        key: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> Self {
        Self(Source::Function(Arc::new(move |parts| key(parts).map(Into::into))))
    }

    /// Whatever this function finds out about a request; it may take its time. It gets what it needs of
    /// the request first.
    #[must_use]
    pub fn from_async_fn<K, F>(key: impl Fn(&Parts) -> F + Send + Sync + 'static) -> Self
    where
        K: Into<Vec<u8>>,
        F: Future<Output = Option<K>> + Send + 'static,
    {
        let find = move |parts: &Parts| -> Later {
            let finding = key(parts);
            Box::pin(async move { finding.await.map(Into::into) })
        };
        Self(Source::Later(Arc::new(find)))
    }

    /// All of these together. Each is written with its length before it, so that nobody can pass for
    /// somebody else by typing a separator.
    #[must_use]
    pub fn all(keys: impl IntoIterator<Item = Key>) -> Self {
        Self(Source::All(keys.into_iter().collect()))
    }

    /// This one, or the other where a request does not have it.
    ///
    /// The two never share a budget, whatever a client sends: each key is marked with which of them it is.
    /// (So a server's lists of keys do not know them; let rules for it go by one kind of key.)
    #[must_use]
    pub fn or(self, other: impl Into<Key>) -> Self {
        Self(Source::Either(Arc::new((self, other.into()))))
    }

    /// Everything it is made of.
    fn sources(&self) -> Vec<&Source> {
        match &self.0 {
            Source::All(keys) => keys.iter().flat_map(Key::sources).collect(),
            Source::Either(keys) => [&keys.0, &keys.1].into_iter().flat_map(Key::sources).collect(),
            source => vec![source],
        }
    }

    /// Whether it cannot be found at once.
    pub(crate) fn takes_time(&self) -> bool {
        self.sources().iter().any(|source| matches!(source, Source::Later(_)))
    }

    /// Whether it needs to know who the connection comes from.
    pub(crate) fn needs_peer(&self) -> bool {
        self.sources().iter().any(|source| matches!(source, Source::Address(_)))
    }

    /// The first name of a header field that is none.
    pub(crate) fn wrong_header(&self) -> Option<&str> {
        self.sources().into_iter().find_map(|source| match source {
            Source::NoHeader(name) => Some(&**name),
            _ => None,
        })
    }

    /// The parameters of the path that it is made of.
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
            Source::NoHeader(name) => write!(f, "header {name}"),
            Source::Bearer(_) => f.write_str("bearer"),
            Source::Path(name) => write!(f, "path {name}"),
            Source::Function(_) => f.write_str("function"),
            Source::Later(_) => f.write_str("async"),
            Source::All(keys) => f.debug_list().entries(&**keys).finish(),
            Source::Either(keys) => write!(f, "{:?} or {:?}", keys.0, keys.1),
        }
    }
}

/// Who the connection comes from, where that is known.
pub(crate) type Peer = Option<IpAddr>;

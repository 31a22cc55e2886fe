//! What a server's errors mean.

use redis::{RedisError, ServerError, ServerErrorKind};
use waterclock::{Failure, StoreError};

use crate::address::address_of;

/// Why there is no reply, or none that decides.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The slot lives elsewhere now.
    Moved(String),
    /// The slot is on its way elsewhere, and this key is there already.
    Ask(String),
    /// Nothing was done; in a moment it may be.
    Again(Failure, String),
    /// Keys of one call are on their way elsewhere; alone, or in a moment, they may be found.
    Apart(String),
    /// Nobody serves the slot. Others of the same server may be well.
    Down(String),
    /// The server does not know the script.
    NoScript,
    /// Anything else.
    Store(StoreError),
}

impl Trouble {
    pub(crate) fn failed(kind: Failure, reason: impl std::fmt::Display) -> Self {
        Self::Store(StoreError::failed(kind, reason))
    }

    /// Whether the server is to blame, so that asking it again is of little use.
    pub(super) fn breaks(&self) -> bool {
        let kind = match self {
            Self::Again(kind, _) => Some(*kind),
            Self::Store(error) => error.failure(),
            Self::Moved(_) | Self::Ask(_) | Self::Apart(_) | Self::Down(_) | Self::NoScript => None,
        };
        use Failure::{Auth, BadReply, Loading, ReadOnly, Timeout, Unreachable, Version};
        matches!(kind, Some(Timeout | Unreachable | Loading | ReadOnly | Auth | BadReply | Version))
    }

    /// Whether the server said it.
    pub(super) fn was_heard(&self) -> bool {
        !matches!(self, Self::Store(error) if error.failure() == Some(Failure::Overloaded))
    }

    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            Self::Again(kind, reason) => StoreError::failed(kind, reason),
            Self::Moved(to) | Self::Ask(to) => {
                StoreError::failed(Failure::Unreachable, format!("its slot keeps moving, to {to}"))
            }
            Self::Apart(reason) | Self::Down(reason) => {
                StoreError::failed(Failure::Unreachable, reason)
            }
            Self::NoScript => StoreError::failed(Failure::BadReply, "it forgets scripts at once"),
        }
    }
}

/// An error among the replies.
pub(super) fn of_server(error: &ServerError) -> Trouble {
    let detail = error.details().unwrap_or_default().to_owned();
    let address = || {
        let address = detail.split(' ').nth(1).unwrap_or_default();
        address.rsplit_once(':').map_or(String::new(), |(host, port)| address_of(host, port))
    };
    match error.kind() {
        Some(ServerErrorKind::Moved) => return Trouble::Moved(address()),
        Some(ServerErrorKind::Ask) => return Trouble::Ask(address()),
        Some(ServerErrorKind::NoScript) => return Trouble::NoScript,
        Some(ServerErrorKind::BusyLoading) => return Trouble::Again(Failure::Loading, detail),
        Some(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => {
            return Trouble::Again(Failure::ReadOnly, detail);
        }
        Some(ServerErrorKind::TryAgain) => return Trouble::Apart(detail),
        Some(ServerErrorKind::ClusterDown) => return Trouble::Down(detail),
        Some(ServerErrorKind::NoPerm) => return Trouble::failed(Failure::Auth, detail),
        _ => {}
    }
    let kind = match error.code() {
        "BUSY" => return Trouble::Again(Failure::Timeout, detail),
        "MISCONF" | "NOREPLICAS" => Failure::ReadOnly,
        "OOM" => Failure::OutOfMemory,
        "NOAUTH" | "WRONGPASS" => Failure::Auth,
        "WRONGTYPE" | "WATERCLOCK" => Failure::Foreign,
        // What a script raises comes wrapped.
        _ if detail.contains("WATERCLOCK") || detail.contains("WRONGTYPE") => Failure::Foreign,
        _ if detail.contains("data string too short") => Failure::Foreign,
        _ => Failure::BadReply,
    };
    Trouble::failed(kind, format!("{} {detail}", error.code()).trim())
}

/// An error of the connection.
pub(crate) fn of_connection(error: &RedisError) -> StoreError {
    let kind = match error.kind() {
        redis::ErrorKind::AuthenticationFailed => Failure::Auth,
        redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => Failure::BadReply,
        redis::ErrorKind::Server(ServerErrorKind::BusyLoading) => Failure::Loading,
        redis::ErrorKind::Extension if matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) => {
            Failure::Auth
        }
        _ if error.is_timeout() => Failure::Timeout,
        _ => Failure::Unreachable,
    };
    StoreError::failed(kind, error)
}

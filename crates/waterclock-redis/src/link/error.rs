//! What errors mean: whether something was done, and what may be tried again.

use redis::{RedisError, ServerError, ServerErrorKind};
use waterclock::{Failure, StoreError};

use crate::address::address_of;

/// Why a request has no reply, or none that decides.
#[derive(Clone, Debug)]
pub(crate) enum CallError {
    /// The slot is on another node now.
    Moved(String),
    /// The slot is being moved to another node, and this key is there already.
    Ask(String),
    /// Nothing was done; a retry may succeed.
    Again(Failure, String),
    /// Some keys of the call are being moved to another node; a retry of each request alone may succeed.
    Split(String),
    /// No node serves the slot. Other slots of this server may be served.
    Down(String),
    /// The server does not have the script.
    NoScript,
    /// The caller stopped waiting before the server's deadline was over.
    GaveUp {
        /// Whether the request was sent, so that it may have charged.
        is_sent: bool,
    },
    /// Anything else.
    Store(StoreError),
}

impl CallError {
    pub(crate) fn failed(kind: Failure, reason: impl std::fmt::Display) -> Self {
        Self::Store(StoreError::failed(kind, reason))
    }

    /// Whether the failure counts against the server.
    pub(super) fn trips_breaker(&self) -> bool {
        match self {
            Self::Again(kind, _) => kind.trips_breaker(),
            Self::Store(error) => error.failure().is_some_and(Failure::trips_breaker),
            Self::Moved(_)
            | Self::Ask(_)
            | Self::Split(_)
            | Self::Down(_)
            | Self::NoScript
            | Self::GaveUp { .. } => false,
        }
    }

    /// Whether the user lacks a permission.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Store(error) if error.failure() == Some(Failure::Auth))
    }

    /// Whether the connection must be closed: the server has become a replica, or does not say what was asked.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Again(kind, _) => *kind == Failure::ReadOnly,
            Self::Store(error) => error.failure() == Some(Failure::BadReply),
            _ => false,
        }
    }

    pub(crate) fn into_store_error(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            // Nothing was done, whatever the kind.
            Self::Again(kind, reason) => StoreError::failed(kind, reason).before_charging(),
            Self::Moved(to) | Self::Ask(to) => StoreError::failed(
                Failure::Unreachable,
                format!("the slot keeps moving, last to {to}"),
            ),
            Self::Split(reason) | Self::Down(reason) => {
                StoreError::failed(Failure::Unreachable, reason)
            }
            Self::NoScript => {
                StoreError::failed(Failure::BadReply, "the server does not keep scripts")
            }
            Self::GaveUp { is_sent: true } => {
                StoreError::failed(Failure::Timeout, "no answer within the caller's deadline")
            }
            Self::GaveUp { is_sent: false } => {
                let reason = "the deadline was over before sending";
                StoreError::failed(Failure::Timeout, reason).before_charging()
            }
        }
    }
}

/// What an error among the replies means.
pub(super) fn server_error(error: &ServerError) -> CallError {
    let detail = error.details().unwrap_or_default().to_owned();
    let address = || {
        let address = detail.split(' ').nth(1).unwrap_or_default();
        address.rsplit_once(':').map_or(String::new(), |(host, port)| address_of(host, port))
    };
    match error.kind() {
        Some(ServerErrorKind::Moved) => return CallError::Moved(address()),
        Some(ServerErrorKind::Ask) => return CallError::Ask(address()),
        Some(ServerErrorKind::NoScript) => return CallError::NoScript,
        Some(ServerErrorKind::BusyLoading) => return CallError::Again(Failure::Loading, detail),
        Some(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => {
            return CallError::Again(Failure::ReadOnly, detail);
        }
        Some(ServerErrorKind::TryAgain) => return CallError::Split(detail),
        Some(ServerErrorKind::ClusterDown) => return CallError::Down(detail),
        Some(ServerErrorKind::NoPerm) => return CallError::Store(no_permission(&detail)),
        _ => {}
    }
    let kind = match error.code() {
        "BUSY" => return CallError::Again(Failure::Timeout, detail),
        "MISCONF" | "NOREPLICAS" => Failure::ReadOnly,
        "OOM" => Failure::OutOfMemory,
        "NOAUTH" | "WRONGPASS" => Failure::Auth,
        "WRONGTYPE" | "WATERCLOCK" => Failure::Foreign,
        // Errors raised by a script are wrapped.
        _ if detail.contains("WATERCLOCK") || detail.contains("WRONGTYPE") => Failure::Foreign,
        _ if detail.contains("data string too short") => Failure::Foreign,
        // What Valkey and Redis say when the user may run the script, but not what it calls.
        _ if detail.contains("ACL failure in script")
            || detail.contains("user executing the script can't run this command") =>
        {
            return CallError::Store(no_permission(&detail));
        }
        _ => Failure::BadReply,
    };
    CallError::failed(kind, format!("{} {detail}", error.code()).trim())
}

fn no_permission(detail: &str) -> StoreError {
    StoreError::failed(Failure::Auth, format!("the user lacks permission: {detail}"))
}

/// What an error of a connection means.
pub(crate) fn connection_error(error: &RedisError) -> StoreError {
    // The client does not pass on the code of a SELECT that failed.
    let detail = error.detail().unwrap_or_default();
    if error.code() == Some("NOPERM") || detail.contains("no permissions to run") {
        return no_permission(detail);
    }
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

/// What an error means that ended an exchange: the server may have run the scripts.
pub(super) fn sending_error(error: &RedisError) -> StoreError {
    let error = connection_error(error);
    if error.failure() == Some(Failure::Unreachable) { error.after_sending() } else { error }
}

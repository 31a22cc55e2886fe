//! How a request went, for costs that are known only afterwards.

use std::time::Duration;

use http::StatusCode;

/// UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS.
const GRPC_SERVER_ERRORS: [i32; 5] = [2, 4, 13, 14, 15];

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It was sent completely.
    Complete,
    /// The client disconnected, or the server dropped the request.
    Aborted,
    /// The service failed, before the response or in the middle of it.
    Failed,
}

/// A request and its response, after the response has ended.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub(crate) status: Option<StatusCode>,
    pub(crate) grpc_status: Option<i32>,
    pub(crate) bytes: u64,
    pub(crate) duration: Duration,
    pub(crate) ending: Ending,
}

impl Exchange {
    /// The response's status; `None` if there was no response.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// `grpc-status`, from the response's header fields or its trailers.
    #[must_use]
    pub fn grpc_status(&self) -> Option<i32> {
        self.grpc_status
    }

    /// How many bytes of the response's body were sent.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The time from the decision to the end of the response.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// How it ended.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Whether the request failed: no response, a response that failed, a status of 400 or above, or a gRPC
    /// status other than 0.
    ///
    /// A client that disconnects during a response is not a failure. One that disconnects before it is,
    /// because the result is unknown.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        let failed = |status: StatusCode| status.is_client_error() || status.is_server_error();
        self.ending == Ending::Failed
            || self.status.is_none_or(failed)
            || self.grpc_status.is_some_and(|status| status != 0)
    }

    /// Whether the service is at fault: it failed, or answered with a status of 500 or above or the gRPC
    /// equivalent. A client that disconnects is not the service's fault.
    #[must_use]
    pub fn is_server_error(&self) -> bool {
        self.ending == Ending::Failed
            || self.status.is_some_and(|status| status.is_server_error())
            || self.grpc_status.is_some_and(|status| GRPC_SERVER_ERRORS.contains(&status))
    }
}

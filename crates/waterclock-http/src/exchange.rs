//! How a request went, for costs that are known only afterwards.

use std::time::Duration;

use http::StatusCode;

/// UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS.
const GRPC_BREAKDOWNS: [i32; 5] = [2, 4, 13, 14, 15];

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was sent to its end.
    Whole,
    /// Somebody stopped it: the client went away, or the request was given up.
    Cut,
    /// The service failed, before the response or in the middle of it.
    Failed,
}

/// How a request went.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub(crate) status: Option<StatusCode>,
    pub(crate) grpc_status: Option<i32>,
    pub(crate) bytes: u64,
    pub(crate) duration: Duration,
    pub(crate) ending: Ending,
}

impl Exchange {
    /// The response's status; none if there was no response.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// `grpc-status`, from the response's fields or its trailers.
    #[must_use]
    pub fn grpc_status(&self) -> Option<i32> {
        self.grpc_status
    }

    /// How many bytes of the response's body were sent.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// From the decision to the end of the response.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// How it ended.
    #[must_use]
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// No response, a response that failed, a status of 400 or above, or a gRPC status other than 0.
    ///
    /// A client that goes away in the middle of a response is no failure by itself; one that goes away before
    /// is, because nobody knows what would have come of it.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        let refused = |status: StatusCode| status.is_client_error() || status.is_server_error();
        self.ending == Ending::Failed
            || self.status.is_none_or(refused)
            || self.grpc_status.is_some_and(|status| status != 0)
    }

    /// Whether the service itself is at fault: it failed, or answered with a status of 500 or above, or with
    /// one of gRPC that means the same. A client that goes away is not its fault.
    #[must_use]
    pub fn is_breakdown(&self) -> bool {
        self.ending == Ending::Failed
            || self.status.is_some_and(|status| status.is_server_error())
            || self.grpc_status.is_some_and(|status| GRPC_BREAKDOWNS.contains(&status))
    }
}

//! How a request went, for costs that are known only afterwards.

use std::time::Duration;

use http::StatusCode;

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
    /// A client that goes away is no failure by itself.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        let refused = |status: StatusCode| status.is_client_error() || status.is_server_error();
        self.ending == Ending::Failed
            || self.status.is_some_and(refused)
            || self.grpc_status.is_some_and(|status| status != 0)
    }
}

//! Why a server has not answered, in sentences for the person at the keyboard.

use std::fmt;
use std::io;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::Said;
use crate::visible::visible;

/// Half a sentence: what is wrong at an address.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// Nobody is there.
    Unreachable(io::Error),
    /// Whoever is there speaks something else.
    Stranger(String),
    /// It went away, or the connection did.
    Broken(String),
    /// It takes too long.
    Late(Duration),
    /// It says why it will not answer.
    Refused { status: Option<StatusCode>, reason: String },
}

impl NoAnswer {
    /// What a response that is no answer means.
    pub(crate) fn of(said: &Said, question: &str) -> NoAnswer {
        let problem: Option<Value> = serde_json::from_slice(&said.body).ok();
        let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
        match detail {
            Some(detail) => {
                NoAnswer::Refused { status: Some(said.status), reason: visible(detail) }
            }
            None => NoAnswer::Stranger(format!(
                "is not a waterclock server: it answers status {} to {question}",
                said.status.as_u16()
            )),
        }
    }

    /// Whether asking again later may help.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            NoAnswer::Unreachable(_) | NoAnswer::Broken(_) | NoAnswer::Late(_) => true,
            NoAnswer::Stranger(_) => false,
            NoAnswer::Refused { status, .. } => {
                status.is_some_and(|status| status.is_server_error() || status.as_u16() == 429)
            }
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Unreachable(error) => {
                let error = error.to_string();
                let error = error.split(" (os error").next().unwrap_or_default();
                write!(
                    f,
                    "cannot be reached: {error}; check the address, or start it with waterclock serve"
                )
            }
            NoAnswer::Stranger(what) | NoAnswer::Broken(what) => f.write_str(what),
            NoAnswer::Late(within) => write!(f, "does not answer within {within:?}"),
            NoAnswer::Refused { status, reason } => {
                f.write_str(reason)?;
                match status.map(|status| status.as_u16()) {
                    Some(401) => f.write_str(
                        "; put the token into WATERCLOCK_TOKEN or a file for --token-file",
                    ),
                    _ => Ok(()),
                }
            }
        }
    }
}

//! Why a server has not answered, in sentences for the person at the keyboard.

use std::fmt;
use std::io;
use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};
use waterclock_rehearse::terminal::visible;

use super::{Response, ServerAddress};

/// Half a sentence: what is wrong at an address.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// No connection.
    Unreachable(io::Error),
    /// Not the protocol or the server that was expected.
    Stranger(String),
    /// The connection broke.
    Broken(String),
    /// No answer in time.
    Late(Duration),
    /// An error response with a reason.
    Refused { status: Option<StatusCode>, reason: String },
}

impl NoAnswer {
    /// What a response that is no answer means.
    pub(crate) fn of(response: &Response, question: &str) -> NoAnswer {
        let problem: Option<Value> = serde_json::from_slice(&response.body).ok();
        let detail = problem.as_ref().and_then(|problem| problem["detail"].as_str());
        match detail {
            Some(detail) => {
                NoAnswer::Refused { status: Some(response.status), reason: visible(detail) }
            }
            None => NoAnswer::Stranger(format!(
                "is not a waterclock server: it answers status {} to {question}",
                response.status.as_u16()
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

/// What a failed handshake means.
pub(super) fn no_handshake(error: &io::Error, address: &ServerAddress) -> NoAnswer {
    let (tls, plain) = (address.scheme(true), address.scheme(false));
    match cause(error) {
        Some(Error::InvalidCertificate(why)) => NoAnswer::Stranger(distrust(why, &address.host)),
        Some(Error::InvalidMessage(_)) => NoAnswer::Stranger(format!(
            "does not speak TLS there; write {plain}:// instead of {tls}:// if plain text is meant"
        )),
        Some(other) => NoAnswer::Stranger(format!("TLS handshake failed: {other}")),
        None if error.kind() == io::ErrorKind::Other => {
            NoAnswer::Stranger("has a name that no certificate can contain".to_owned())
        }
        None => NoAnswer::Broken(format!(
            "does not answer a TLS handshake; check that it speaks TLS there, or write {plain}://"
        )),
    }
}

/// Whether the server answered in TLS, although the handshake failed.
pub(super) fn is_answer_in_tls(error: &io::Error) -> bool {
    matches!(cause(error), Some(Error::InvalidCertificate(_) | Error::AlertReceived(_)))
}

/// Whether a client certificate was missing.
pub(super) fn asks_for_certificate(error: &io::Error) -> bool {
    let asks = |alert: &AlertDescription| *alert == AlertDescription::CertificateRequired;
    matches!(cause(error), Some(Error::AlertReceived(alert)) if asks(alert))
}

fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Half a sentence about a certificate that is not trusted.
fn distrust(why: &CertificateError, host: &str) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    match why {
        // An authority of the same name with another key.
        UnknownIssuer | BadSignature => {
            "has a certificate of an unknown authority; name the authority's file with --ca"
                .to_owned()
        }
        NotValidForName | NotValidForNameContext { .. } => {
            format!("has a certificate that is not for {host}; use a name that it is for")
        }
        Expired | ExpiredContext { .. } => {
            "has an expired certificate; it needs a new one".to_owned()
        }
        NotValidYet | NotValidYetContext { .. } => {
            "has a certificate that is not valid yet; check the clock".to_owned()
        }
        other => format!("has a certificate that cannot be trusted: {other}"),
    }
}

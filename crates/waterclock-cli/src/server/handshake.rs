//! Why no TLS has come about, in words for the person at the keyboard.

use std::io;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error};

use super::{NoAnswer, ServerAddress};

/// What a handshake that failed means.
pub(super) fn no_handshake(error: &io::Error, address: &ServerAddress) -> NoAnswer {
    let (tls, plain) = (address.scheme(true), address.scheme(false));
    match cause(error) {
        Some(Error::InvalidCertificate(why)) => NoAnswer::Stranger(distrust(why, &address.host)),
        Some(Error::InvalidMessage(_)) => NoAnswer::Stranger(format!(
            "does not speak TLS there; write {plain}:// instead of {tls}:// if plain text is meant"
        )),
        Some(other) => NoAnswer::Stranger(format!("no TLS came about: {other}")),
        None if error.kind() == io::ErrorKind::Other => {
            NoAnswer::Stranger("has a name that no certificate can be for".to_owned())
        }
        None => NoAnswer::Broken(format!(
            "does not answer a TLS handshake; check that it speaks TLS there, or write {plain}://"
        )),
    }
}

/// Whether somebody has answered in TLS, although nothing came of it.
pub(super) fn is_answer_in_tls(error: &io::Error) -> bool {
    matches!(cause(error), Some(Error::InvalidCertificate(_) | Error::AlertReceived(_)))
}

/// Whether it was a certificate that was missing.
pub(super) fn asks_for_certificate(error: &io::Error) -> bool {
    let asks = |alert: &AlertDescription| *alert == AlertDescription::CertificateRequired;
    matches!(cause(error), Some(Error::AlertReceived(alert)) if asks(alert))
}

fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// Half a sentence on a certificate that is not believed.
fn distrust(why: &CertificateError, host: &str) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    match why {
        // One of the same name and another key is another authority.
        UnknownIssuer | BadSignature => {
            "shows a certificate of an authority that is not known here; name the \
            authority's file with --ca"
                .to_owned()
        }
        NotValidForName | NotValidForNameContext { .. } => {
            format!("shows a certificate that is not for {host}; use a name that it is for")
        }
        Expired | ExpiredContext { .. } => {
            "shows a certificate that has expired; it needs a new one".to_owned()
        }
        NotValidYet | NotValidYetContext { .. } => {
            "shows a certificate that is not valid yet; check the clock".to_owned()
        }
        other => format!("shows a certificate that cannot be believed: {other}"),
    }
}

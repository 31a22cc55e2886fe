//! TLS, and certificates asked of clients.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::config::{Invalid, TlsSpec, cannot_read};

/// An acceptor for the files of the configuration.
pub(crate) fn acceptor(spec: &TlsSpec, protocols: &[&str]) -> Result<TlsAcceptor, Invalid> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&spec.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&spec.key)?)
        .map_err(|_| format!("{}: holds no private key in PEM", spec.key.display()))?;
    let verifier = match &spec.client_ca {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates(path)?);
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| format!("{}: {error}", path.display()))?
        }
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_client_cert_verifier(verifier))
        .and_then(|builder| builder.with_single_cert(chain, key))
        .map_err(|error| format!("{} and {}: {error}", spec.cert.display(), spec.key.display()))?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read(path: &Path) -> Result<Vec<u8>, Invalid> {
    std::fs::read(path).map_err(|error| cannot_read(&path.display().to_string(), &error).into())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    let pem = read(path)?;
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().unwrap_or_default();
    if chain.is_empty() {
        return Err(format!("{}: holds no certificate in PEM", path.display()).into());
    }
    Ok(chain)
}

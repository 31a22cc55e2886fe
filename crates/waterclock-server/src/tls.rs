//! TLS: certificates, keys, and the authorities of client certificates.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::observe::Face;
use waterclock_config::{Config, Invalid, MAX_SECRET_FILE, TlsConfig, read_file};

/// The TLS settings of a face; `None` inside is plain text.
pub(crate) type Acceptor = Arc<ArcSwapOption<TlsAcceptor>>;

/// The certificates in force.
#[derive(Clone)]
pub(crate) struct Certificates {
    /// For HTTP and gRPC, which negotiate the version of HTTP in the handshake.
    http: Acceptor,
    other: Acceptor,
}

/// Certificates that were read and match their keys.
pub(crate) struct Renewed {
    http: Option<TlsAcceptor>,
    other: Option<TlsAcceptor>,
}

impl Certificates {
    pub(crate) fn new(config: &Config) -> Result<Certificates, Invalid> {
        let Renewed { http, other } = Renewed::read(config.server.tls.as_ref())?;
        let shared =
            |acceptor: Option<TlsAcceptor>| Arc::new(ArcSwapOption::new(acceptor.map(Arc::new)));
        Ok(Certificates { http: shared(http), other: shared(other) })
    }

    pub(crate) fn of(&self, face: Face) -> &Acceptor {
        if face == Face::Resp { &self.other } else { &self.http }
    }

    /// Reads the certificates of a new configuration, before it is in force.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Renewed, Invalid> {
        let is_on = self.http.load().is_some();
        if is_on != config.server.tls.is_some() {
            let turned = if is_on { "off" } else { "on" };
            return Err(
                format!("{}: `tls` can be turned {turned} by a restart only", config.file).into()
            );
        }
        Renewed::read(config.server.tls.as_ref())
    }

    /// Reads the same files again. Blocks.
    pub(crate) fn read_again(&self, tls: &TlsConfig) -> Result<(), Invalid> {
        self.renew(Renewed::read(Some(tls))?);
        Ok(())
    }

    /// Replaces the certificates for new connections.
    pub(crate) fn renew(&self, renewed: Renewed) {
        self.http.store(renewed.http.map(Arc::new));
        self.other.store(renewed.other.map(Arc::new));
    }
}

impl Renewed {
    fn read(tls: Option<&TlsConfig>) -> Result<Renewed, Invalid> {
        let acceptor = |protocols: &[&str]| tls.map(|spec| acceptor(spec, protocols)).transpose();
        Ok(Renewed { http: acceptor(&["h2", "http/1.1"])?, other: acceptor(&[])? })
    }
}

/// An acceptor for the files of the configuration.
fn acceptor(spec: &TlsConfig, protocols: &[&str]) -> Result<TlsAcceptor, Invalid> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&spec.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&spec.key)?)
        .map_err(|_| format!("{}: contains no private key in PEM format", spec.key.display()))?;
    let verifier = match &spec.client_ca {
        None => WebPkiClientVerifier::no_client_auth(),
        Some(path) => {
            let roots = Arc::new(Authorities::read(path)?.roots);
            WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
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

/// Trusted certificate authorities.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// The file's content.
    pub pem: Vec<u8>,
    /// The same, parsed.
    pub roots: RootCertStore,
}

impl Authorities {
    /// Reads a PEM file. The error is a sentence that begins with its name.
    pub fn read(path: &Path) -> Result<Authorities, String> {
        let pem = read(path)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates_in(&pem, path)? {
            // Other programs skip such certificates silently; here it is an error.
            roots.add(certificate).map_err(|_| {
                format!("{}: contains a certificate that is not an authority's", path.display())
            })?;
        }
        Ok(Authorities { pem, roots })
    }
}

/// The certificates of a file in PEM.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates_in(&read(path)?, path)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    read_file(path, MAX_SECRET_FILE)
}

fn certificates_in(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().unwrap_or_default();
    if all.is_empty() {
        return Err(format!("{}: contains no certificate in PEM format", path.display()));
    }
    Ok(all)
}

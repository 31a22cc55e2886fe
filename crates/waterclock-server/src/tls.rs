//! TLS, and certificates asked of clients.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

use crate::authorities::{Authorities, certificates, read};
use crate::observe::Face;
use waterclock_config::{Config, Invalid, TlsConfig};

/// What a face greets connections with; nothing is plain text.
pub(crate) type Greeting = Arc<ArcSwapOption<TlsAcceptor>>;

/// The certificates in force.
#[derive(Clone)]
pub(crate) struct Certificates {
    /// For faces that speak HTTP, which agree on its version in the handshake.
    http: Greeting,
    other: Greeting,
}

/// Certificates that have been read and fit together.
pub(crate) struct Renewed {
    http: Option<TlsAcceptor>,
    other: Option<TlsAcceptor>,
}

impl Certificates {
    pub(crate) fn new(config: &Config) -> Result<Certificates, Invalid> {
        let Renewed { http, other } = Renewed::read(config)?;
        let greeting =
            |acceptor: Option<TlsAcceptor>| Arc::new(ArcSwapOption::new(acceptor.map(Arc::new)));
        Ok(Certificates { http: greeting(http), other: greeting(other) })
    }

    pub(crate) fn of(&self, face: Face) -> &Greeting {
        if face == Face::Resp { &self.other } else { &self.http }
    }

    /// Reads what the configuration names; nothing is in force yet.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Renewed, Invalid> {
        let is_on = self.http.load().is_some();
        if is_on != config.server.tls.is_some() {
            let turned = if is_on { "off" } else { "on" };
            return Err(
                format!("{}: `tls` is turned {turned} by a restart only", config.file).into()
            );
        }
        Renewed::read(config)
    }

    /// For new connections; open ones stay as they are.
    pub(crate) fn renew(&self, renewed: Renewed) {
        self.http.store(renewed.http.map(Arc::new));
        self.other.store(renewed.other.map(Arc::new));
    }
}

impl Renewed {
    fn read(config: &Config) -> Result<Renewed, Invalid> {
        let acceptor = |protocols: &[&str]| {
            config.server.tls.as_ref().map(|spec| acceptor(spec, protocols)).transpose()
        };
        Ok(Renewed { http: acceptor(&["h2", "http/1.1"])?, other: acceptor(&[])? })
    }
}

/// An acceptor for the files of the configuration.
fn acceptor(spec: &TlsConfig, protocols: &[&str]) -> Result<TlsAcceptor, Invalid> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&spec.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read(&spec.key)?)
        .map_err(|_| format!("{}: holds no private key in PEM", spec.key.display()))?;
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

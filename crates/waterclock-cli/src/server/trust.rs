//! Whose word is taken for it that a server is the one that was meant.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::ServerAddress;
use crate::failure::Failure;
use waterclock_server::Authorities;
use waterclock_server::observe::Face;

/// The authorities that are believed.
#[derive(clap::Args)]
pub(crate) struct Trust {
    /// A PEM file with the authority of the server's certificate, for TLS [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Trust {
    /// Whether a file was named.
    pub(crate) fn is_given(&self) -> bool {
        self.ca.is_some()
    }

    /// What TLS to this address takes; nothing if it is plain text that is spoken there.
    pub(super) fn for_tls(
        &self,
        address: &ServerAddress,
    ) -> Result<Option<Arc<ClientConfig>>, Failure> {
        if address.tls {
            return Ok(Some(client(self.roots()?, address.face)?));
        }
        if self.is_given() {
            let (tls, plain) = (address.scheme(true), address.scheme(false));
            return Err(format!("--ca is for TLS; write {tls}:// instead of {plain}://").into());
        }
        Ok(None)
    }

    fn roots(&self) -> Result<RootCertStore, Failure> {
        if let Some(path) = &self.ca {
            return Ok(Authorities::read(path)?.roots);
        }
        let mut roots = RootCertStore::empty();
        // What cannot be read there may be of no use to anybody.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let sentence = "this system knows no certificate authority; name one with --ca";
            return Err(sentence.to_owned().into());
        }
        Ok(roots)
    }
}

/// A client that believes these, for the protocol of a face.
pub(super) fn client(roots: RootCertStore, face: Face) -> Result<Arc<ClientConfig>, Failure> {
    let mut client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = match face {
        Face::Http => vec![b"http/1.1".to_vec()],
        Face::Grpc => vec![b"h2".to_vec()],
        Face::Resp => Vec::new(),
    };
    Ok(Arc::new(client))
}

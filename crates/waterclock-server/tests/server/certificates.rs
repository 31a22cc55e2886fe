//! Certificates of a private authority, and clients that trust it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, DEFAULT_VERSIONS, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Issues certificates.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("well-formed");
        Authority { issuer }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn for_server(&self) -> Issued {
        self.issue(Some(ExtendedKeyUsagePurpose::ServerAuth))
    }

    pub(crate) fn for_client(&self) -> Issued {
        self.issue(Some(ExtendedKeyUsagePurpose::ClientAuth))
    }

    /// For either, as it says nothing about that.
    pub(crate) fn for_both(&self) -> Issued {
        self.issue(None)
    }

    fn issue(&self, purpose: Option<ExtendedKeyUsagePurpose>) -> Issued {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages.extend(purpose);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("well-formed");
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Connects as a client that trusts this authority, with or without a certificate.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        own: Option<&Issued>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.connect_by(DEFAULT_VERSIONS, address, own).await
    }

    /// The same with these versions of TLS.
    pub(crate) async fn connect_by(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        address: SocketAddr,
        own: Option<&Issued>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = CertificateDer::from_pem_slice(own.certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(vec![chain.expect("PEM")], key).expect("a pair")
            }
        };
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::IpAddress(address.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

impl Issued {
    /// Writes `cert.pem` and `key.pem`.
    pub(crate) fn write_to(&self, directory: &Path) {
        std::fs::write(directory.join("cert.pem"), &self.certificate).expect("written");
        std::fs::write(directory.join("key.pem"), &self.key).expect("written");
    }
}

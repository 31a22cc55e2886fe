//! Certificates for a server on the loopback, from a private authority.

use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use tempfile::TempDir;

use super::redis::Settings;

/// The certificate and key of a server, in files, and the authority's certificate.
#[derive(Debug)]
pub struct Certificates {
    dir: TempDir,
    ca_pem: String,
}

impl Certificates {
    /// A new authority, and a certificate of it for `127.0.0.1` and `localhost`.
    #[expect(clippy::new_without_default, reason = "every call creates a new one")]
    pub fn new() -> Self {
        let (ca_pem, certificate, key) = generate().expect("the certificates are well-formed");
        let dir = TempDir::with_prefix("waterclock-tls-").expect("a directory can be made");
        for (name, pem) in [("ca", &ca_pem), ("certificate", &certificate), ("key", &key)] {
            fs::write(dir.path().join(name), pem).expect("the directory can be written");
        }
        Self { dir, ca_pem }
    }

    /// The authority's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The file of the `ca`, the `certificate` or its `key`, in PEM, for as long as this lives.
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// The settings of a server that presents this certificate and requires none from clients.
    pub(super) fn configure(&self, settings: Settings) -> Settings {
        let path = |name: &str| format!("\"{}\"", self.path(name));
        settings.with(&[
            ("tls-cert-file", &path("certificate")),
            ("tls-key-file", &path("key")),
            ("tls-ca-cert-file", &path("ca")),
            ("tls-auth-clients", "no"),
        ])
    }
}

/// An authority's certificate, and the certificate and key of a server, in PEM.
fn generate() -> Result<(String, String, String), rcgen::Error> {
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "Waterclock's tests");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

    let mut server = CertificateParams::new(["127.0.0.1".into(), "localhost".into()])?;
    server.distinguished_name.push(DnType::CommonName, "localhost");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &ca)?;
    Ok((ca.pem(), certificate.pem(), key.serialize_pem()))
}

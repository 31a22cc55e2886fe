//! Certificates in files, and the authorities that are trusted because of them.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use waterclock_config::cannot_read;

/// Whose certificates are believed.
#[derive(Clone, Debug)]
pub struct Authorities {
    /// As the file has them.
    pub pem: Vec<u8>,
    /// The same, for a handshake.
    pub roots: RootCertStore,
}

impl Authorities {
    /// All of a file in PEM, or one sentence that begins with its name.
    pub fn read(path: &Path) -> Result<Authorities, String> {
        let pem = read(path)?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates_in(&pem, path)? {
            // Others pass over what they cannot use; here it is a slip that somebody should know of.
            roots.add(certificate).map_err(|_| {
                format!("{}: holds a certificate that cannot be an authority's", path.display())
            })?;
        }
        Ok(Authorities { pem, roots })
    }
}

/// The certificates of a file in PEM.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates_in(&read(path)?, path)
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| cannot_read(&path.display().to_string(), &error))
}

fn certificates_in(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().unwrap_or_default();
    if all.is_empty() {
        return Err(format!("{}: holds no certificate in PEM", path.display()));
    }
    Ok(all)
}

//! The way to a server: the token, the trusted authorities, and a connected stream.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method};
use hyper::body::Bytes;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use waterclock_config::{cannot_read, nearest_first};
use waterclock_rehearse::terminal::visible;
use waterclock_server::Authorities;
use waterclock_server::observe::Face;

use super::no_answer::{asks_for_certificate, is_answer_in_tls, no_handshake};
use super::{Connection, NoAnswer, ServerAddress};
use crate::output::Failure;

/// The deadline of connecting, of a handshake and of a request.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// The deadline of a diagnosis, which only improves the error message.
const DIAGNOSIS: Duration = Duration::from_secs(1);

/// A server that can be asked.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: ServerAddress,
    pub(crate) token: Option<String>,
    tls: Option<Arc<ClientConfig>>,
}

/// A connected stream, in plain text or TLS.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Server {
    pub(crate) fn new(address: ServerAddress, access: &Access) -> Result<Server, Failure> {
        let tls = access.tls(&address)?;
        Ok(Server { token: access.token()?, tls, address })
    }

    /// A server of others, to which our token must not go. Its certificate is signed by an authority of the system.
    pub(crate) fn without_token(address: ServerAddress) -> Result<Server, Failure> {
        let tls = Access { token_file: None, ca: None }.tls(&address)?;
        Ok(Server { token: None, tls, address })
    }

    #[cfg(test)]
    pub(crate) fn plain(address: ServerAddress) -> Server {
        Server { address, token: None, tls: None }
    }

    /// Connects, without delay for small writes.
    pub(crate) async fn dial(&self) -> Result<Box<dyn Wire>, NoAnswer> {
        let stream = self.connect().await?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let secured = timeout(PATIENCE, self.handshake(tls, stream)).await;
        let late = || Err(io::Error::from(io::ErrorKind::TimedOut));
        match secured.unwrap_or_else(|_| late()) {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(no_handshake(&error, &self.address)),
        }
    }

    /// The error message, after a second connection that finds out more.
    pub(crate) async fn explain(&self, no_answer: &NoAnswer) -> String {
        let address = &self.address;
        if matches!(no_answer, NoAnswer::Stranger(_) | NoAnswer::Broken(_))
            && let Ok(Some(found)) = timeout(DIAGNOSIS, self.diagnose()).await
        {
            return format!("{address}: {found}");
        }
        let known = match no_answer {
            NoAnswer::Refused { reason, .. } => self.known_policies(reason).await,
            _ => None,
        };
        format!("{address}: {no_answer}{}", known.unwrap_or_default())
    }

    /// Ends the sentence about an unknown policy with those that there are, if the server tells.
    async fn known_policies(&self, reason: &str) -> Option<String> {
        let word = reason.strip_prefix("there is no policy `")?.split('`').next()?;
        let names = self.policies().await?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let is_told = matches!(&*names, [only] if reason.contains(&format!("`{only}`")));
        (!names.is_empty() && !is_told)
            .then(|| format!("; the server has {}", nearest_first(word, &names)))
    }

    /// The policies of a server, over HTTP; none if it does not tell.
    pub(crate) async fn policies(&self) -> Option<Vec<String>> {
        if self.address.face != Face::Http {
            return None;
        }
        let asked = async {
            let mut connection = Connection::open(self).await.ok()?;
            connection.ask(Method::GET, "/v1/policies", Bytes::new()).await.ok()
        };
        let response = timeout(DIAGNOSIS, asked).await.ok()??;
        let answer: Value = serde_json::from_slice(&response.body).ok()?;
        let policies = answer["policies"].as_array()?.iter();
        Some(policies.filter_map(|policy| policy["name"].as_str().map(visible)).collect())
    }

    async fn diagnose(&self) -> Option<String> {
        let stream = self.connect().await.ok()?;
        match &self.tls {
            Some(tls) => {
                // A server that requires a certificate says so after the handshake.
                let mut stream = self.handshake(tls, stream).await.ok()?;
                let error = stream.read_u8().await.err()?;
                asks_for_certificate(&error).then(|| {
                    "requires a client certificate, which this command cannot present".to_owned()
                })
            }
            None => {
                let trusts_none = client(RootCertStore::empty(), self.address.face).ok()?;
                let error = self.handshake(&trusts_none, stream).await.err()?;
                let (tls, plain) = (self.address.scheme(true), self.address.scheme(false));
                is_answer_in_tls(&error)
                    .then(|| format!("speaks TLS there; write {tls}:// instead of {plain}://"))
            }
        }
    }

    async fn connect(&self) -> Result<TcpStream, NoAnswer> {
        let late = |_| NoAnswer::Unreachable(io::Error::from(io::ErrorKind::TimedOut));
        let authority = self.address.authority();
        let dialled = timeout(PATIENCE, TcpStream::connect(authority)).await.map_err(late)?;
        let stream = dialled.map_err(NoAnswer::Unreachable)?;
        stream.set_nodelay(true).map_err(NoAnswer::Unreachable)?;
        Ok(stream)
    }

    async fn handshake(
        &self,
        tls: &Arc<ClientConfig>,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(self.address.host.clone()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::clone(tls)).connect(name, stream).await
    }
}

/// How to be let in by a server: the token, and the authorities that are trusted.
#[derive(clap::Args)]
pub(crate) struct Access {
    // Never an argument: every user of the machine can see those.
    /// A file with the token for the server [default: the variable WATERCLOCK_TOKEN, if it is set]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file with the authority of the server's certificate, for TLS [default: those of the system]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl Access {
    /// A flag that was given, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let token = self.token_file.as_ref().map(|_| "--token-file");
        token.or(self.ca.as_ref().map(|_| "--ca"))
    }

    /// The TLS configuration for this address; none for plain text.
    fn tls(&self, address: &ServerAddress) -> Result<Option<Arc<ClientConfig>>, Failure> {
        if address.tls {
            return Ok(Some(client(self.roots()?, address.face)?));
        }
        if self.ca.is_some() {
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
        // Certificates that cannot be parsed are left out.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("this system has no certificate authorities; name one with --ca".into());
        }
        Ok(roots)
    }

    /// The token, if there is one.
    fn token(&self) -> Result<Option<String>, Failure> {
        const VARIABLE: &str = "WATERCLOCK_TOKEN";
        let (place, text) = match &self.token_file {
            Some(path) => {
                let name = path.display().to_string();
                let text =
                    std::fs::read_to_string(path).map_err(|error| cannot_read(&name, &error))?;
                (name, text)
            }
            None => match std::env::var(VARIABLE) {
                Ok(text) => (VARIABLE.to_owned(), text),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(_) => (VARIABLE.to_owned(), "\u{fffd}".to_owned()),
            },
        };
        let text = text.trim();
        if text.is_empty() && self.token_file.is_none() {
            return Ok(None);
        }
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{place}: a token is one word of visible ASCII characters").into());
        }
        Ok(Some(text.to_owned()))
    }
}

/// A client that trusts these, for the protocol of a face.
fn client(roots: RootCertStore, face: Face) -> Result<Arc<ClientConfig>, Failure> {
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

/// As HTTP and gRPC send it.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

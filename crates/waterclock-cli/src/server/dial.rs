//! The way to a server: its address, what opens it, and a connected stream.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::handshake::{asks_for_certificate, is_answer_in_tls, no_handshake};
use super::trust::client;
use super::{NoAnswer, ServerAddress, Token, Trust};
use crate::failure::Failure;

/// Nothing that works takes this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long a second look may take, which only finds better words.
const GLANCE: Duration = Duration::from_secs(1);

/// A server that can be asked.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) address: ServerAddress,
    pub(crate) token: Option<String>,
    tls: Option<Arc<ClientConfig>>,
}

/// What is written to and read from, in plain text or through TLS.
pub(crate) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Server {
    pub(crate) fn new(
        address: ServerAddress,
        token: &Token,
        trust: &Trust,
    ) -> Result<Server, Failure> {
        let tls = trust.for_tls(&address)?;
        Ok(Server { token: token.read()?, tls, address })
    }

    #[cfg(test)]
    pub(crate) fn plain(address: ServerAddress) -> Server {
        Server { address, token: None, tls: None }
    }

    /// A connection that sends at once whatever is written.
    pub(crate) async fn dial(&self) -> Result<Box<dyn Wire>, NoAnswer> {
        let stream = self.connect().await?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let greeted = timeout(PATIENCE, self.greet(tls, stream)).await;
        let late = || Err(io::Error::from(io::ErrorKind::TimedOut));
        match greeted.unwrap_or_else(|_| late()) {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(no_handshake(&error, &self.address)),
        }
    }

    /// The whole sentence for a person who has no answer, after a second look at what is there.
    pub(crate) async fn complaint(&self, no_answer: &NoAnswer) -> String {
        let address = &self.address;
        if matches!(no_answer, NoAnswer::Stranger(_) | NoAnswer::Broken(_))
            && let Ok(Some(found)) = timeout(GLANCE, self.look_again()).await
        {
            return format!("{address}: {found}");
        }
        format!("{address}: {no_answer}")
    }

    async fn look_again(&self) -> Option<String> {
        let stream = self.connect().await.ok()?;
        match &self.tls {
            Some(tls) => {
                // A server that wants to see a certificate says so after the handshake.
                let mut stream = self.greet(tls, stream).await.ok()?;
                let error = stream.read_u8().await.err()?;
                asks_for_certificate(&error).then(|| {
                    "asks clients for a certificate, and none can be shown here".to_owned()
                })
            }
            None => {
                let nobody = client(RootCertStore::empty(), self.address.face).ok()?;
                let error = self.greet(&nobody, stream).await.err()?;
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

    async fn greet(
        &self,
        tls: &Arc<ClientConfig>,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(self.address.host.clone()).map_err(io::Error::other)?;
        TlsConnector::from(Arc::clone(tls)).connect(name, stream).await
    }
}

//! A running server, asked from outside: its address, its token, TLS, and one HTTP connection with a bound on everything.

mod address;
mod connect;
mod no_answer;

pub(crate) use self::address::ServerAddress;
pub(crate) use self::connect::{Access, Server, Wire};
pub(crate) use self::no_answer::NoAnswer;

use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use self::connect::{PATIENCE, bearer};

/// The longest body that is read, in bytes.
const MOST_BYTES: usize = 16 * 1_024 * 1_024;

/// The server's answer.
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// An open connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
    token: Option<HeaderValue>,
}

impl Connection {
    pub(crate) async fn open(server: &Server) -> Result<Connection, NoAnswer> {
        let stream = server.dial().await?;
        let (sender, driver) =
            handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        // If the connection fails, the next request reports it.
        tokio::spawn(async move { drop(driver.await) });
        let host = HeaderValue::from_str(&server.address.authority())
            .map_err(|_| NoAnswer::Broken("has a name that HTTP cannot carry".to_owned()))?;
        Ok(Connection { sender, host, token: server.token.as_deref().and_then(bearer) })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn ask(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response, NoAnswer> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() =
            path.parse().map_err(|_| NoAnswer::Broken(format!("cannot be asked for `{path}`")))?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.host.clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(token) = &self.token {
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        timeout(PATIENCE, self.send(request)).await.map_err(|_| NoAnswer::Late(PATIENCE))?
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response, NoAnswer> {
        self.sender.ready().await.map_err(|error| broken(&error))?;
        let response = self.sender.send_request(request).await.map_err(|error| broken(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MOST_BYTES).collect().await;
        let body =
            body.map_err(|error| NoAnswer::Broken(format!("broke off its answer: {error}")))?;
        Ok(Response { status: head.status, body: body.to_bytes() })
    }
}

fn broken(error: &hyper::Error) -> NoAnswer {
    if error.is_parse() {
        return NoAnswer::Stranger("does not speak HTTP".to_owned());
    }
    // As a listener of another protocol does, or a server that shuts down.
    NoAnswer::Broken(
        "closed the connection before it answered; check that this is its HTTP address".to_owned(),
    )
}

//! Checks over HTTP/1.1 in their plain form, answered without hyper.
//!
//! Callers of a rate limiter send one small request after the other over a connection that they keep. For these, the
//! general machinery (an HTTP state machine, a channel for the body, a router, boxed handlers) costs several times as much
//! as the decision. What is plain is read here; guards and handlers are those of the router.
//!
//! | plain | anything else goes to hyper, as does the rest of the connection |
//! |---|---|
//! | `POST /v1/check`, `POST /v1/peek` or `GET /v1/authorize` in HTTP/1.1 | other methods, paths and versions |
//! | all of one request, and nothing else, in one read of up to 8 KiB | long or slow requests, several at once |
//! | `Content-Length` with a POST | chunked bodies, a GET with a body |
//! | one `Host`, `Connection: keep-alive` if any | `Expect`, `Upgrade`, `TE`, `Trailer`, `Connection: close` |
//! | header fields of letters, digits and hyphens, with values in printable ASCII | other bytes |
//!
//! So all bounds of requests that need one (their length, the time they take to arrive) are hyper's and the router's. A
//! test sends the same requests both ways, and compares the answers byte by byte.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use waterclock::Verb;

use super::problem::Problem;
use super::request::{self, Checks, Head, Proxies, Question};
use super::{authorize, check};
use crate::connections::Guest;
use crate::observe::Face;
use crate::pace::{Pace, UnderWay};
use crate::server::Server;

/// The longest plain request, in bytes.
const ROOM: usize = 8 * 1_024;
/// The most header fields, as elsewhere.
pub(super) const MAX_FIELDS: usize = 64;
/// A longer body is not copied behind its head, and a buffer of twice this is not kept for the next answer: idle
/// connections are many.
const MAX_KEPT: usize = 4 * 1_024;

/// Answers plain requests until one is not, and returns the bytes of that one. `None` if the connection has ended, or is to
/// end: after an answer that says so, or after the answer under way once `stops` is set.
pub(crate) async fn serve<IO>(
    server: &Server,
    io: &mut IO,
    pace: &Arc<Pace>,
    stops: &AtomicBool,
) -> io::Result<Option<Bytes>>
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    let mut buffer = vec![0; ROOM];
    let mut written = Vec::new();
    loop {
        let read = poll_fn(|context| match stops.load(Ordering::Relaxed) {
            true => Poll::Ready(Ok(0)),
            false => poll_read(io, context, &mut buffer),
        });
        let received = match read.await? {
            0 => return Ok(None),
            read => &buffer[..read],
        };
        let Some(request) = Plain::parse(received) else {
            return Ok(Some(Bytes::copy_from_slice(received)));
        };
        let under_way = UnderWay::new(pace);
        let answer = pin!(answer(server, pace.guest(), &request));
        // The client has left: its request does not keep a place that others wait for.
        let Some((answer, early)) = unless_left(answer, io).await else { return Ok(None) };
        let mut response = answer.unwrap_or_else(Problem::into_answer);
        // Announced, so that the client does not send its next request to a connection about to close.
        let closes = server.is_leaving();
        if closes {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        drop(under_way);
        written.clear();
        write_head(&response, &mut written);
        let body = response.into_body();
        if body.len() > MAX_KEPT {
            // The answer to a batch: in one call to the system, and not copied for it.
            io.write_all_buf(&mut written.as_slice().chain(body)).await?;
        } else {
            written.extend_from_slice(&body);
            drop(body);
            io.write_all(&written).await?;
        }
        io.flush().await?;
        if closes {
            return Ok(None);
        }
        if early.is_some() {
            return Ok(early);
        }
        if written.capacity() > 2 * MAX_KEPT {
            written = Vec::new();
        }
    }
}

/// Waits for an answer, unless the client leaves. Mostly it is there at once. What the client sends meanwhile comes with it:
/// a byte of its next request.
async fn unless_left<T, IO: AsyncRead + Unpin>(
    mut answer: Pin<&mut impl Future<Output = T>>,
    io: &mut IO,
) -> Option<(T, Option<Bytes>)> {
    let mut early = None;
    poll_fn(|context| {
        if let Poll::Ready(answer) = answer.as_mut().poll(context) {
            return Poll::Ready(Some((answer, early.take())));
        }
        let mut byte = [0];
        if early.is_none()
            && let Poll::Ready(read) = poll_read(io, context, &mut byte)
        {
            match read {
                Ok(0) | Err(_) => return Poll::Ready(None),
                Ok(_) => early = Some(Bytes::copy_from_slice(&byte)),
            }
        }
        Poll::Pending
    })
    .await
}

fn poll_read<IO: AsyncRead + Unpin>(
    io: &mut IO,
    context: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(buffer);
    let read = Pin::new(io).poll_read(context, &mut buffer);
    read.map_ok(|()| buffer.filled().len())
}

/// Passes the guards in the order of the router, then decides.
async fn answer(
    server: &Server,
    guest: &Arc<Guest>,
    request: &Plain<'_>,
) -> Result<Response<Bytes>, Problem> {
    let Plain { path, query, headers, body } = request;
    let head = Head { headers, authority: None };
    match path {
        Path::Authorize => request::authorize::<Proxies, _>(server, guest, head, ()).await?,
        Path::Check(_) => request::authorize::<Checks, _>(server, guest, head, ()).await?,
    }
    let mut hold = server.buffers().hold(Face::Http, guest.origin());
    if !body.is_empty() {
        request::take(server, &mut hold, body.len())?;
    }
    let _place = request::admit::<Checks>(server)?;
    let question = Question { headers, query: *query, body, peer: guest.peer.ip() };
    match path {
        Path::Authorize => authorize::answer(server, question).await,
        Path::Check(verb) => check::answer(&server.engine, *verb, question).await,
    }
}

/// A plain request.
struct Plain<'b> {
    path: Path,
    query: Option<&'b str>,
    /// Those that guards and handlers may read.
    headers: HeaderMap,
    body: &'b [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Check(Verb),
    Authorize,
}

/// Header fields that no guard and no handler reads. One that does so has to take its field out of this list.
const UNREAD: [&[u8]; 3] = [b"content-type", b"user-agent", b"accept-encoding"];
/// Header fields about the connection or the form of the body.
const NOT_PLAIN: [&[u8]; 8] = [
    b"transfer-encoding",
    b"expect",
    b"upgrade",
    b"te",
    b"trailer",
    b"keep-alive",
    b"proxy-connection",
    b"http2-settings",
];

impl<'b> Plain<'b> {
    /// `None` for a request that is not plain, or not there yet.
    fn parse(bytes: &'b [u8]) -> Option<Plain<'b>> {
        let (line, mut rest) = split_line(bytes)?;
        let (path, query) = target(line)?;
        let mut headers = HeaderMap::new();
        let (mut host, mut length) = (None, None);
        let mut fields = 0;
        loop {
            let (line, after) = split_line(rest)?;
            rest = after;
            if line.is_empty() {
                break;
            }
            fields += 1;
            let (name, value) = field(line).filter(|_| fields <= MAX_FIELDS)?;
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            if is(b"host") {
                given_once(&mut host, value)?;
            } else if is(b"content-length") {
                given_once(&mut length, number(value)?)?;
            } else if is(b"connection") {
                value.eq_ignore_ascii_case(b"keep-alive").then_some(())?;
            } else if NOT_PLAIN.iter().any(|known| is(known)) {
                return None;
            } else if !UNREAD.iter().any(|known| is(known)) {
                let name = HeaderName::from_bytes(name).ok()?;
                headers.append(name, HeaderValue::from_bytes(value).ok()?);
            }
        }
        let host = host?;
        if !headers.is_empty() {
            // `reject_other_sites` reads it beside other fields, and not without any.
            headers.insert(header::HOST, HeaderValue::from_bytes(host).ok()?);
        }
        let length = match path {
            Path::Check(_) => length?,
            Path::Authorize => length.unwrap_or(0),
        };
        let is_whole = rest.len() == length && (path != Path::Authorize || length == 0);
        is_whole.then_some(Plain { path, query, headers, body: rest })
    }
}

/// The path and the query of a request line.
fn target(line: &[u8]) -> Option<(Path, Option<&str>)> {
    let line = line.strip_suffix(b" HTTP/1.1")?;
    let (path, rest) = [
        (&b"POST /v1/check"[..], Path::Check(Verb::Check)),
        (b"GET /v1/authorize", Path::Authorize),
        (b"POST /v1/peek", Path::Check(Verb::Peek)),
    ]
    .into_iter()
    .find_map(|(start, path)| Some((path, line.strip_prefix(start)?)))?;
    let Some((mark, query)) = rest.split_first() else { return Some((path, None)) };
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%=&,:+@/".contains(byte);
    let is_query = *mark == b'?' && query.iter().all(is_plain);
    Some((path, Some(str::from_utf8(query).ok().filter(|_| is_query)?)))
}

/// The bytes before the end of a line, and those after it.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == b'\r')?;
    let rest = bytes[at..].strip_prefix(b"\r\n")?;
    Some((&bytes[..at], rest))
}

/// The name and the value of a header field, without spaces and tabs around the value.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':').filter(|at| *at > 0)?;
    let (name, mut value) = (&line[..colon], &line[colon + 1..]);
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    // Each to its end, so that the compiler takes several bytes at a time.
    let is_name = name
        .iter()
        .fold(true, |is_name, byte| is_name & (byte.is_ascii_alphanumeric() | (*byte == b'-')));
    let is_value = value.iter().fold(true, |is_value, byte| is_value & matches!(byte, b' '..=b'~'));
    (is_name && is_value).then_some((name, value))
}

/// `None` if there was one before.
fn given_once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// Digits and nothing else; no plain request has more than four.
fn number(text: &[u8]) -> Option<usize> {
    let is_number = (1..=4).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |all, digit| all * 10 + usize::from(digit - b'0')))
}

/// Writes the head of a response as hyper does: with its length and the date after its other header fields.
fn write_head(response: &Response<Bytes>, to: &mut Vec<u8>) {
    let (status, length) = (response.status(), response.body().len());
    to.extend_from_slice(b"HTTP/1.1 ");
    to.extend_from_slice(status.as_str().as_bytes());
    to.push(b' ');
    to.extend_from_slice(status.canonical_reason().unwrap_or("<none>").as_bytes());
    for (name, value) in response.headers() {
        to.extend_from_slice(b"\r\n");
        to.extend_from_slice(name.as_str().as_bytes());
        to.extend_from_slice(b": ");
        to.extend_from_slice(value.as_bytes());
    }
    to.extend_from_slice(b"\r\ncontent-length: ");
    to.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    to.extend_from_slice(b"\r\ndate: ");
    write_date(to);
    to.extend_from_slice(b"\r\n\r\n");
}

thread_local! {
    /// The second of Unix time that is written out, and its text.
    static DATE: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// Writes the time as `Date` has it.
#[expect(
    clippy::disallowed_methods,
    reason = "no decision depends on it, and hyper's `Date` is the system's too"
)]
fn write_date(to: &mut Vec<u8>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    DATE.with_borrow_mut(|(second, text)| {
        if *second != now {
            *second = now;
            *text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
        }
        to.extend_from_slice(text.as_bytes());
    });
}

/// A stream of which the first bytes were read already.
pub(super) struct Rewound<IO> {
    first: Bytes,
    io: IO,
}

impl<IO> Rewound<IO> {
    pub(super) fn new(first: Bytes, io: IO) -> Rewound<IO> {
        Rewound { first, io }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Rewound<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.io).poll_read(context, buffer);
        }
        let many = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..many]);
        self.first.advance(many);
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Rewound<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str, fields: &str, body: &str) -> Vec<u8> {
        format!("{line}\r\nHost: h\r\n{fields}\r\n{body}").into_bytes()
    }

    #[test]
    fn plain_requests() {
        for (line, fields, body, path, query) in [
            (
                "POST /v1/check HTTP/1.1",
                "Content-Type: application/json\r\nContent-Length: 2\r\n",
                "{}",
                Path::Check(Verb::Check),
                None,
            ),
            (
                "POST /v1/peek?fields=allowed,limit HTTP/1.1",
                "CONTENT-LENGTH:0\r\nconnection: Keep-Alive\r\nX-Other:  a b \r\n",
                "",
                Path::Check(Verb::Peek),
                Some("fields=allowed,limit"),
            ),
            (
                "GET /v1/authorize?policy=p&key=a%20b HTTP/1.1",
                "",
                "",
                Path::Authorize,
                Some("policy=p&key=a%20b"),
            ),
            ("GET /v1/authorize HTTP/1.1", "content-length: 0\r\n", "", Path::Authorize, None),
        ] {
            let bytes = request(line, fields, body);
            let plain = Plain::parse(&bytes).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((plain.path, plain.query, plain.body), (path, query, body.as_bytes()));
            for end in 0..bytes.len() {
                assert!(Plain::parse(&bytes[..end]).is_none(), "{line}: {end} bytes of it");
            }
            let twice = bytes.repeat(2);
            assert!(Plain::parse(&twice).is_none(), "{line}: two of them");
        }
        let bytes =
            request("GET /v1/authorize HTTP/1.1", "x-a:  1\t\r\nX-A: 2\r\naccept: */*\r\n", "");
        let headers = Plain::parse(&bytes).unwrap().headers;
        let values: Vec<_> = headers.get_all("x-a").iter().collect();
        assert_eq!(values, ["1", "2"]);
        assert_eq!(headers["host"], "h", "beside others");
    }

    #[tokio::test]
    async fn a_client_that_leaves_ends_its_request() {
        let (mut here, there) = tokio::io::duplex(64);
        drop(there);
        let never = pin!(std::future::pending::<()>());
        assert!(unless_left(never, &mut here).await.is_none());

        let (mut here, mut there) = tokio::io::duplex(64);
        there.write_all(b"POST").await.unwrap();
        let soon = pin!(tokio::time::sleep(Duration::from_millis(1)));
        let ((), early) = unless_left(soon, &mut here).await.unwrap();
        assert_eq!(early.as_deref(), Some(&b"P"[..]), "the next request has begun");

        // What is answered at once reads nothing.
        let ((), early) = unless_left(pin!(async {}), &mut here).await.unwrap();
        assert_eq!(early, None);
    }

    #[test]
    fn everything_else() {
        let check = "POST /v1/check HTTP/1.1";
        let many = "a: b\r\n".repeat(MAX_FIELDS);
        for (line, fields) in [
            ("POST /v1/check HTTP/1.0", "content-length: 0\r\n"),
            ("POST /v1/checks HTTP/1.1", "content-length: 0\r\n"),
            ("POST /v1/check/ HTTP/1.1", "content-length: 0\r\n"),
            ("POST  /v1/check HTTP/1.1", "content-length: 0\r\n"),
            ("POST http://h/v1/check HTTP/1.1", "content-length: 0\r\n"),
            ("post /v1/check HTTP/1.1", "content-length: 0\r\n"),
            ("GET /v1/check HTTP/1.1", ""),
            ("HEAD /v1/authorize HTTP/1.1", ""),
            ("GET /v1/authorize?a=\"b\" HTTP/1.1", ""),
            ("GET /v1/authorize?a=b#c HTTP/1.1", ""),
            ("GET /v1/authorize?a= HTTP/1.1 HTTP/1.1", ""),
            ("GET /v1/authorize HTTP/1.1", "content-length: 1\r\n"),
            ("GET /v1/authorize HTTP/1.1", "host: i\r\n"),
            ("GET /v1/authorize HTTP/1.1", "te: trailers\r\n"),
            (check, ""),
            (check, "content-length: 1\r\n"),
            (check, "content-length: +0\r\n"),
            (check, "content-length: 0x0\r\n"),
            (check, "content-length: \r\n"),
            (check, "content-length: 00000\r\n"),
            (check, "content-length: 0\r\ncontent-length: 0\r\n"),
            (check, "content-length: 0, 0\r\n"),
            (check, "content-length : 0\r\n"),
            (check, "content-length: 0\r\ntransfer-encoding: chunked\r\n"),
            (check, "content-length: 0\r\nTransfer-Encoding: identity\r\n"),
            (check, "content-length: 0\r\nexpect: 100-continue\r\n"),
            (check, "content-length: 0\r\nconnection: close\r\n"),
            (check, "content-length: 0\r\nconnection: keep-alive, upgrade\r\n"),
            (check, "content-length: 0\r\nupgrade: h2c\r\n"),
            (check, "content-length: 0\r\n folded: a\r\n"),
            (check, "content-length: 0\r\na: b\n\r\n"),
            (check, "content-length: 0\r\na: b\rc\r\n"),
            (check, "content-length: 0\r\na: \u{e9}\r\n"),
            (check, "content-length: 0\r\na: b\u{0}\r\n"),
            (check, "content-length: 0\r\nno colon\r\n"),
            (check, "content-length: 0\r\n: b\r\n"),
            (check, &*format!("content-length: 0\r\n{many}")),
        ] {
            let bytes = request(line, fields, "");
            assert!(Plain::parse(&bytes).is_none(), "{line} {fields}");
        }
        assert!(Plain::parse(b"GET /v1/authorize HTTP/1.1\r\n\r\n").is_none(), "no host");
        assert!(Plain::parse(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").is_none());
    }
}

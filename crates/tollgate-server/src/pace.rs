//! How long a peer may take: for the head of a request, and for doing nothing at all.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The patience of the server with a peer.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the first byte of a request to the end of its head; also for a TLS handshake.
    pub head: Duration,
    /// From the first byte of a command of the Redis protocol to the last.
    pub command: Duration,
    /// Without any request.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            head: Duration::from_secs(5),
            command: Duration::from_secs(10),
            idle: Duration::from_secs(60),
        }
    }
}

/// What a connection is doing, shared by its bytes and its requests.
#[derive(Debug)]
pub(crate) struct Pace {
    patience: Patience,
    /// Requests that are being answered.
    under_way: AtomicU32,
    /// Requests so far.
    begun: AtomicU32,
}

impl Pace {
    pub(crate) fn new(patience: Patience) -> Pace {
        Pace { patience, under_way: AtomicU32::new(0), begun: AtomicU32::new(0) }
    }

    pub(crate) fn request_begins(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request_ends(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until nothing was asked for as long as patience lasts, and up to half as long again.
    pub(crate) async fn idle(&self) {
        let mut before = None;
        loop {
            let at_rest = self.under_way.load(Ordering::Relaxed) == 0;
            let seen = at_rest.then(|| self.begun.load(Ordering::Relaxed));
            if seen.is_some() && seen == before {
                return;
            }
            before = seen;
            sleep(self.patience.idle).await;
        }
    }
}

/// A stream that gives up on a peer which starts a request and does not finish its head.
///
/// hyper's own timeout for heads starts when it begins to wait, so it cannot tell a slow head from a
/// connection at rest.
pub(crate) struct Paced<IO> {
    io: IO,
    pace: Arc<Pace>,
    /// Runs while a head has begun and no request has come of it.
    timer: Option<Pin<Box<Sleep>>>,
    /// HTTP/2 has no heads that could be told from other frames here. It bounds them itself.
    is_http2: bool,
    has_begun: bool,
}

impl<IO> Paced<IO> {
    pub(crate) fn new(io: IO, pace: Arc<Pace>) -> Paced<IO> {
        // The first head is expected at once.
        let timer = Some(Box::pin(sleep(pace.patience.head)));
        Paced { io, pace, timer, is_http2: false, has_begun: false }
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Paced<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        if !this.has_begun && read.is_ready() {
            this.has_begun = true;
            this.is_http2 = buffer.filled()[before..].starts_with(b"PRI");
        }
        if this.is_http2 {
            return read;
        }
        // Whoever is being answered may take their time with the next request.
        if this.pace.under_way.load(Ordering::Relaxed) > 0 {
            this.timer = None;
            return read;
        }
        if read.is_ready() {
            if this.timer.is_none() {
                this.timer = Some(Box::pin(sleep(this.pace.patience.head)));
            }
            return read;
        }
        if let Some(timer) = &mut this.timer {
            ready!(timer.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Paced<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // An answer goes out: the head it answers is complete, and the next has not begun.
        self.timer = None;
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
        self.timer = None;
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }
}

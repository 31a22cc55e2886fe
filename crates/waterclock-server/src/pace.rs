//! Slow and idle peers: what a connection is doing, and a stream that times out.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::connections::Guest;
use crate::timing::Patience;

/// An idle connection is polled so many times within its idle time.
const POLLS: u32 = 4;

/// What a connection is doing, shared by its bytes and its requests.
pub(crate) struct Pace {
    patience: Patience,
    guest: Arc<Guest>,
    /// Requests that are being answered.
    under_way: AtomicU32,
    /// Requests so far, and events of streams.
    begun: AtomicU32,
    is_http2: AtomicBool,
}

impl Pace {
    pub(crate) fn new(patience: Patience, guest: Arc<Guest>) -> Pace {
        Pace {
            patience,
            guest,
            under_way: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            is_http2: AtomicBool::new(false),
        }
    }

    /// Whose connection it is.
    pub(crate) fn guest(&self) -> &Arc<Guest> {
        &self.guest
    }

    /// Counts an event of a stream as activity, because the peer has read the one before.
    pub(crate) fn keep_alive(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a request is being answered.
    fn is_answering(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Waits until there was no request for the idle time.
    pub(crate) async fn idle(&self) {
        self.at_rest_for(self.patience.idle).await;
    }

    /// Waits until the connection can be closed without losing a request.
    ///
    /// HTTP/2 announces it, so that is now. In HTTP/1 a request may be on its way whenever none is being answered, and
    /// only a quiet time makes that unlikely.
    pub(crate) async fn closable(&self, quiet: Duration) {
        let is_http2 = self.is_http2.load(Ordering::Relaxed);
        if is_http2 && self.begun.load(Ordering::Relaxed) > 0 {
            return;
        }
        self.at_rest_for(quiet).await;
    }

    async fn at_rest_for(&self, long: Duration) {
        let mut before = None;
        let mut polls = 0;
        loop {
            let seen = (!self.is_answering()).then(|| self.begun.load(Ordering::Relaxed));
            polls = if seen.is_some() && seen == before { polls + 1 } else { 0 };
            if polls == POLLS {
                return;
            }
            before = seen;
            sleep(long / POLLS).await;
        }
    }
}

/// A request that is being answered, until the answer is sent or cancelled.
pub(crate) struct UnderWay(Arc<Pace>);

impl UnderWay {
    pub(crate) fn new(pace: &Arc<Pace>) -> UnderWay {
        pace.guest.touch();
        pace.begun.fetch_add(1, Ordering::Relaxed);
        pace.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(pace))
    }

    pub(crate) fn pace(&self) -> &Pace {
        &self.0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that times out a peer which starts a request and does not finish its head.
///
/// hyper's own timeout starts when it begins to wait, so it cannot tell a slow head from an idle connection.
///
/// On shutdown it reads on for a while: closing with bytes unread resets the connection, and the peer may lose the
/// answer that was sent before.
pub(crate) struct Paced<IO> {
    io: IO,
    pace: Arc<Pace>,
    /// Whether a head is expected and incomplete.
    in_head: bool,
    /// Runs while the rest of the head is awaited.
    timer: Option<Pin<Box<Sleep>>>,
    /// HTTP/2 bounds its heads itself.
    is_http2: bool,
    has_begun: bool,
    shutdown: Shutdown,
}

/// The progress of a shutdown.
enum Shutdown {
    NotYet,
    /// What was written is being sent, and TLS's farewell. A peer that does not read ends the wait for that.
    Sending(Pin<Box<Sleep>>),
    /// Our side is closed; the peer's is not.
    Sent(Pin<Box<Sleep>>),
    Done,
}

/// Reads in a row before the task yields.
const READS: usize = 16;

impl<IO> Paced<IO> {
    pub(crate) fn new(io: IO, pace: Arc<Pace>) -> Paced<IO> {
        // The first head is expected at once.
        Paced {
            io,
            pace,
            in_head: true,
            timer: None,
            is_http2: false,
            has_begun: false,
            shutdown: Shutdown::NotYet,
        }
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
            if this.is_http2 {
                this.pace.is_http2.store(true, Ordering::Relaxed);
            }
        }
        if this.is_http2 {
            return read;
        }
        // While a request is answered, the next one may take its time.
        if this.pace.is_answering() {
            this.head_ends();
            return read;
        }
        if read.is_ready() {
            this.in_head = true;
            return read;
        }
        // Most heads arrive in one piece and need no timer.
        if this.in_head {
            let head = this.pace.patience.head;
            let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(head)));
            ready!(timer.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<IO> Paced<IO> {
    /// The head is complete, and the next has not begun.
    fn head_ends(&mut self) {
        self.in_head = false;
        self.timer = None;
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Paced<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // An answer is being sent.
        self.head_ends();
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let timer = || Box::pin(sleep(this.pace.patience.head));
        if let Shutdown::NotYet = this.shutdown {
            this.shutdown = Shutdown::Sending(timer());
        }
        if let Shutdown::Sending(long_enough) = &mut this.shutdown {
            match Pin::new(&mut this.io).poll_shutdown(context)? {
                Poll::Ready(()) => this.shutdown = Shutdown::Sent(timer()),
                Poll::Pending => {
                    ready!(long_enough.as_mut().poll(context));
                    this.shutdown = Shutdown::Done;
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
        if let Shutdown::Sent(long_enough) = &mut this.shutdown {
            if long_enough.as_mut().poll(context).is_pending() {
                ready!(drain(&mut this.io, context));
            }
            this.shutdown = Shutdown::Done;
        }
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.head_ends();
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }
}

/// Reads and discards. Ready when the peer has closed its side.
fn drain<IO: AsyncRead + Unpin>(io: &mut IO, context: &mut Context<'_>) -> Poll<()> {
    let mut bytes = [0; 4_096];
    for _ in 0..READS {
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = ready!(Pin::new(&mut *io).poll_read(context, &mut buffer));
        if read.is_err() || buffer.filled().is_empty() {
            return Poll::Ready(());
        }
    }
    context.waker().wake_by_ref();
    Poll::Pending
}

//! A stream that gives up on peers without manners, and parts from all of them politely.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::pace::Pace;

/// A stream that gives up on a peer which starts a request and does not finish its head.
///
/// hyper's own timeout for heads starts when it begins to wait, so it cannot tell a slow head from a
/// connection at rest.
///
/// When it is shut down it goes on reading for a while: a connection that is closed with bytes unread
/// is reset, and then the peer may never see the answer that was sent before.
pub(crate) struct Paced<IO> {
    io: IO,
    pace: Arc<Pace>,
    /// Whether a head has begun, or must, and no request has come of it.
    in_head: bool,
    /// Runs while the rest of it is waited for.
    timer: Option<Pin<Box<Sleep>>>,
    /// HTTP/2 has no heads that could be told from other frames here. It bounds them itself.
    is_http2: bool,
    has_begun: bool,
    parting: Parting,
}

/// How far the end has come.
enum Parting {
    NotYet,
    /// We have said that we are done; the peer has not.
    ReloadStatus(Pin<Box<Sleep>>),
    Done,
}

/// Reads in a row, after which others on this thread are let go first.
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
            parting: Parting::NotYet,
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
                this.pace.speaks_http2();
            }
        }
        if this.is_http2 {
            return read;
        }
        // Whoever is being answered may take their time with the next request.
        if this.pace.is_answering() {
            this.head_ends();
            return read;
        }
        if read.is_ready() {
            this.in_head = true;
            return read;
        }
        // Most heads come in one piece: only one that has to be waited for needs a timer.
        if this.in_head {
            let head = this.pace.patience().head;
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
        // An answer goes out.
        self.head_ends();
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Parting::NotYet = this.parting {
            ready!(Pin::new(&mut this.io).poll_shutdown(context))?;
            this.parting = Parting::ReloadStatus(Box::pin(sleep(this.pace.patience().head)));
        }
        if let Parting::ReloadStatus(long_enough) = &mut this.parting {
            if long_enough.as_mut().poll(context).is_pending() {
                ready!(peer_is_done(&mut this.io, context));
            }
            this.parting = Parting::Done;
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

/// Reads, and forgets, whatever still comes. Ready when nothing can come any more.
fn peer_is_done<IO: AsyncRead + Unpin>(io: &mut IO, context: &mut Context<'_>) -> Poll<()> {
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

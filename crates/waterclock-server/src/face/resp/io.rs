//! Reading from and writing to a client, with a deadline on everything.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use waterclock::{Clock, Timestamp};

use super::parse::LONGEST_COMMAND;
use crate::buffers::Hold;
use crate::connections::Guest;
use crate::server::{Phase, Server};

/// The usual size of a receive buffer. More is taken from the budget that all share.
const BUFFER: usize = 16 * 1024;
/// The same, until the client is known.
const STRANGERS_BUFFER: usize = 1024;

/// A buffer that grows with what was received, never with what a client announces.
pub(super) struct ReceiveBuffer {
    bytes: Vec<u8>,
    from: usize,
    to: usize,
    /// What it has beyond its usual size.
    hold: Hold,
}

impl ReceiveBuffer {
    pub(super) fn new(hold: Hold) -> ReceiveBuffer {
        ReceiveBuffer { bytes: Vec::new(), from: 0, to: 0, hold }
    }

    /// The bytes that were received and not consumed.
    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from == self.to
    }

    #[inline]
    pub(super) fn consume(&mut self, len: usize) {
        self.from = (self.from + len).min(self.to);
    }

    /// Free space at the end; `None` if the budget has no bytes left. A command that fills the largest buffer is complete
    /// or an error.
    pub(super) fn room(&mut self, is_known: bool) -> Option<&mut [u8]> {
        if self.is_empty() {
            (self.from, self.to) = (0, 0);
            let usual = if is_known { BUFFER } else { STRANGERS_BUFFER };
            if self.bytes.len() != usual {
                self.bytes = vec![0; usual];
                self.hold.release();
            }
        } else if self.from > 0 {
            self.bytes.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        if self.to == self.bytes.len() {
            let larger = (self.bytes.len() * 2).min(LONGEST_COMMAND + 1);
            if !self.hold.grow(larger - self.bytes.len(), is_known) {
                return None;
            }
            self.bytes.resize(larger, 0);
        }
        Some(&mut self.bytes[self.to..])
    }

    /// Receives until the client has closed its side. Never ends if the buffer is full: it does not grow here.
    pub(super) async fn until_end<S: AsyncRead + Unpin>(&mut self, stream: &mut S) {
        self.bytes.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        while self.to < self.bytes.len() {
            match stream.read(&mut self.bytes[self.to..]).await {
                Ok(len @ 1..) => self.to += len,
                Ok(0) | Err(_) => return,
            }
        }
        std::future::pending::<()>().await;
    }

    /// So many bytes were written into the free space.
    pub(super) fn received(&mut self, len: usize) {
        self.to = (self.to + len).min(self.bytes.len());
    }
}

/// How long a client may take to read the last reply and to close.
const LINGER: Duration = Duration::from_secs(1);

/// What ended the waiting.
pub(super) enum Waited {
    /// There is more to read.
    Bytes,
    /// The client has closed the connection.
    End,
    /// The deadline has passed.
    TimedOut,
    /// The server drains.
    Draining,
    /// The command is too long for what is left of the budget of receive buffers.
    NoRoom,
}

/// One timer and one watch on the server's phase for the life of a connection. Both are polled only while no bytes
/// arrive.
pub(super) struct Waits {
    timer: Pin<Box<Sleep>>,
    draining: Pin<Box<dyn Future<Output = ()> + Send>>,
    pub(super) is_draining: bool,
}

impl Waits {
    pub(super) fn new(server: &Server) -> Waits {
        let mut phase = server.phase();
        let draining = async move {
            // A server that was dropped has stopped.
            _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
        };
        Waits {
            timer: Box::pin(sleep(server.patience().idle)),
            draining: Box::pin(draining),
            is_draining: false,
        }
    }

    /// Waits for more bytes until `deadline`.
    pub(super) async fn bytes<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        (inbox, guest): (&mut ReceiveBuffer, &Guest),
        clock: &impl Clock,
        deadline: Timestamp,
    ) -> Waited {
        let mut is_set = false;
        let read = poll_fn(|cx| {
            let Some(room) = inbox.room(guest.is_known()) else {
                return Poll::Ready(Err(Waited::NoRoom));
            };
            let mut room = ReadBuf::new(room);
            match Pin::new(&mut *stream).poll_read(cx, &mut room) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(room.filled().len())),
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(0)),
                Poll::Pending => {}
            }
            if !self.is_draining && self.draining.as_mut().poll(cx).is_ready() {
                self.is_draining = true;
                return Poll::Ready(Err(Waited::Draining));
            }
            if !is_set {
                is_set = true;
                self.set_no_later(clock.now(), deadline);
            }
            while self.timer.as_mut().poll(cx).is_ready() {
                let now = clock.now();
                if now >= deadline {
                    return Poll::Ready(Err(Waited::TimedOut));
                }
                self.timer.as_mut().reset(Instant::now() + deadline.since(now));
            }
            Poll::Pending
        });
        match read.await {
            Ok(0) => Waited::End,
            Ok(len) => {
                inbox.received(len);
                Waited::Bytes
            }
            Err(came) => came,
        }
    }

    /// A timer that fires too early is set again then; only a late one must be reset now.
    fn set_no_later(&mut self, now: Timestamp, deadline: Timestamp) {
        let deadline = Instant::now() + deadline.since(now);
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
    }
}

/// Sends all bytes. A client that does not read times out.
pub(super) async fn send<S: AsyncWrite + Unpin>(
    stream: &mut S,
    bytes: &[u8],
    patience: Duration,
) -> io::Result<()> {
    let all = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    tokio::select! {
        biased;
        sent = all => sent,
        // The timer is made only if the write has to wait.
        () = async { sleep(patience).await } => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Closes a connection after its last reply. Closing with bytes unread would reset the connection, and replies could be
/// lost. So what a busy client still sends is read and discarded, until it notices the end or the time is up: a second or,
/// while the server drains, for as long as that takes.
pub(super) async fn close<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, server: &Server) {
    let linger = async {
        if stream.shutdown().await.is_ok() {
            let mut rest = vec![0; BUFFER];
            while matches!(stream.read(&mut rest).await, Ok(1..)) {}
        }
    };
    let mut phase = server.phase();
    let time = async {
        sleep(LINGER).await;
        if server.is_draining() {
            // Ends with the server in any case.
            _ = phase.wait_for(|phase| *phase >= Phase::Ended).await;
        }
    };
    tokio::select! {
        () = linger => {}
        () = time => {}
    }
}

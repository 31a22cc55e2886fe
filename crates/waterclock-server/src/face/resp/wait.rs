//! Waiting for a client, but not for ever.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout};
use waterclock::{Clock, Timestamp};

use super::inbox::Inbox;
use crate::server::{Phase, Server};

/// After the last reply, for the client to take notice.
const LINGER: Duration = Duration::from_secs(1);
/// What is read and thrown away meanwhile.
const LINGER_BYTES: u64 = 4 * 1024 * 1024;

/// What ended the waiting.
pub(super) enum Came {
    /// There is more to read.
    Bytes,
    /// Nobody is there any more.
    End,
    /// It took too long.
    TooLate,
    /// The server stops.
    Draining,
}

/// One timer and one ear for a connection's whole life: both are set once and looked at only while
/// nothing comes.
pub(super) struct Waiting {
    timer: Pin<Box<Sleep>>,
    draining: Pin<Box<dyn Future<Output = ()> + Send>>,
    pub(super) is_draining: bool,
}

impl Waiting {
    pub(super) fn new(server: &Server) -> Waiting {
        let mut phase = server.phase();
        let draining = async move {
            // A server that is gone is one that stops.
            _ = phase.wait_for(|phase| *phase >= Phase::Draining).await;
        };
        Waiting {
            timer: Box::pin(sleep(server.patience().idle)),
            draining: Box::pin(draining),
            is_draining: false,
        }
    }

    /// Waits for more bytes until `deadline`.
    pub(super) async fn bytes<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        inbox: &mut Inbox,
        clock: &impl Clock,
        deadline: Timestamp,
    ) -> Came {
        let mut is_set = false;
        let read = poll_fn(|cx| {
            let mut room = ReadBuf::new(inbox.room());
            match Pin::new(&mut *stream).poll_read(cx, &mut room) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(room.filled().len())),
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(0)),
                Poll::Pending => {}
            }
            if !self.is_draining && self.draining.as_mut().poll(cx).is_ready() {
                self.is_draining = true;
                return Poll::Ready(Err(Came::Draining));
            }
            if !is_set {
                is_set = true;
                self.set_no_later(clock.now(), deadline);
            }
            while self.timer.as_mut().poll(cx).is_ready() {
                let now = clock.now();
                if now >= deadline {
                    return Poll::Ready(Err(Came::TooLate));
                }
                self.timer.as_mut().reset(Instant::now() + deadline.since(now));
            }
            Poll::Pending
        });
        match read.await {
            Ok(0) => Came::End,
            Ok(len) => {
                inbox.came(len);
                Came::Bytes
            }
            Err(came) => came,
        }
    }

    /// A timer that is set too early is set again when it rings; only one too late must be set now.
    fn set_no_later(&mut self, now: Timestamp, deadline: Timestamp) {
        let deadline = Instant::now() + deadline.since(now);
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
    }
}

/// Sends all of it. A client that does not read is given up.
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
        // The timer is made when it is first needed, which is hardly ever.
        () = async { sleep(patience).await } => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Ends a connection so that the last reply is read. Closing with bytes unread would reset the
/// connection, and the reply could be lost with it.
pub(super) async fn farewell<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) {
    let linger = async {
        if stream.shutdown().await.is_ok() {
            let mut rest = stream.take(LINGER_BYTES);
            let mut bytes = [0; 4096];
            while matches!(rest.read(&mut bytes).await, Ok(1..)) {}
        }
    };
    _ = timeout(LINGER, linger).await;
}

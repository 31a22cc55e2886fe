//! How a connection begins: whoever does not speak HTTP/2 at once is not kept.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What every HTTP/2 client sends first.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose first bytes have been read, and are read again.
pub(super) struct Begun<IO> {
    io: IO,
    /// How much of the preface has been given to the reader.
    given: usize,
}

/// Waits for the first bytes; nothing if they are not those of HTTP/2.
pub(super) async fn begin<IO: AsyncRead + Unpin>(mut io: IO) -> Option<Begun<IO>> {
    let mut first = [0; PREFACE.len()];
    let mut filled = 0;
    while filled < first.len() {
        let read = io.read(&mut first[filled..]).await.ok()?;
        filled += read;
        // Somebody who speaks another protocol hears at once that it is not spoken here.
        if read == 0 || first[..filled] != PREFACE[..filled] {
            return None;
        }
    }
    Some(Begun { io, given: 0 })
}

impl<IO: AsyncRead + Unpin> AsyncRead for Begun<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &PREFACE[self.given..];
        if rest.is_empty() {
            return Pin::new(&mut self.io).poll_read(context, buffer);
        }
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        self.given += count;
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Begun<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

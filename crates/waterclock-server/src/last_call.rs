//! The last moments of a listening socket.
//!
//! Whoever has connected may have sent a request already, and closing the socket would reset the
//! connections that nobody has accepted yet. So first the system stops answering newcomers, then
//! everybody who is in is accepted, and only then the socket is closed.

use std::time::Duration;

use tokio::net::TcpListener;
use tracing::debug;

/// Handshakes that have begun end within so long, or not at all.
pub(crate) const HANDSHAKES: Duration = Duration::from_millis(100);

/// From now on nobody can begin to connect; who has begun, goes on.
///
/// Elsewhere than on Linux, and where the system does not allow it, nothing happens: then whoever
/// connects in the very instant in which the socket is closed is turned away.
pub(crate) fn refuse_newcomers(listener: &TcpListener) {
    if let Err(error) = drop_first_segments(listener) {
        debug!("newcomers cannot be told from others: {error}");
    }
}

#[cfg(target_os = "linux")]
fn drop_first_segments(listener: &TcpListener) -> std::io::Result<()> {
    use socket2::{SockFilter, SockRef};

    // A filter for the segments that reach the listening socket, in the words of `man 2 bpf`: take
    // the byte with the flags, look at SYN, and drop the segment if it is set.
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    SockRef::from(listener).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS),
        SockFilter::new(JUMP_IF_SET, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ])
}

#[cfg(not(target_os = "linux"))]
fn drop_first_segments(_: &TcpListener) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn who_is_in_stays_and_nobody_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _in = TcpStream::connect(address).await.unwrap();
        refuse_newcomers(&listener);
        let newcomer = timeout(Duration::from_millis(300), TcpStream::connect(address)).await;
        assert!(newcomer.is_err(), "neither let in nor turned away");
        assert!(timeout(Duration::from_secs(5), listener.accept()).await.is_ok());
        assert!(timeout(Duration::from_millis(100), listener.accept()).await.is_err());
    }
}

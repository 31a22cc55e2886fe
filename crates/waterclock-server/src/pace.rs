//! How long a peer may take: for a request, and for doing nothing at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// The patience of the server with a peer.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the first byte of a request to the end of its head. Also for a TLS handshake, and for a
    /// peer to close a connection after it was told that we do.
    pub head: Duration,
    /// From the end of a head to the end of its body.
    pub body: Duration,
    /// From the first byte of a command of the Redis protocol to the last.
    pub command: Duration,
    /// Without any request.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            head: Duration::from_secs(5),
            body: Duration::from_secs(10),
            command: Duration::from_secs(10),
            idle: Duration::from_secs(60),
        }
    }
}

/// Between two looks at a connection at rest there is this part of the time it may rest.
const LOOKS: u32 = 4;

/// What a connection is doing, shared by its bytes and its requests.
#[derive(Debug)]
pub(crate) struct Pace {
    patience: Patience,
    /// Requests that are being answered.
    under_way: AtomicU32,
    /// Requests so far, and other signs of life.
    begun: AtomicU32,
    is_http2: AtomicBool,
}

impl Pace {
    pub(crate) fn new(patience: Patience) -> Pace {
        Pace {
            patience,
            under_way: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            is_http2: AtomicBool::new(false),
        }
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    pub(crate) fn request_begins(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// An answer that has no end has gone on, because the peer has read what came before.
    pub(crate) fn keep_alive(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request_ends(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether somebody is being answered.
    pub(crate) fn is_answering(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn speaks_http2(&self) {
        self.is_http2.store(true, Ordering::Relaxed);
    }

    /// Waits until nothing was asked for as long as patience lasts, and a little longer.
    pub(crate) async fn idle(&self) {
        self.at_rest_for(self.patience.idle).await;
    }

    /// Waits until the connection can be closed without losing a request.
    ///
    /// HTTP/2 has words for that, so it is now. In HTTP/1 a request may be on its way whenever none
    /// is under way, and only a while without any makes that unlikely.
    pub(crate) async fn closable(&self, quiet: Duration) {
        let is_http2 = self.is_http2.load(Ordering::Relaxed);
        if is_http2 && self.begun.load(Ordering::Relaxed) > 0 {
            return;
        }
        self.at_rest_for(quiet).await;
    }

    async fn at_rest_for(&self, long: Duration) {
        let mut before = None;
        let mut looks = 0;
        loop {
            let seen = (!self.is_answering()).then(|| self.begun.load(Ordering::Relaxed));
            looks = if seen.is_some() && seen == before { looks + 1 } else { 0 };
            if looks == LOOKS {
                return;
            }
            before = seen;
            sleep(long / LOOKS).await;
        }
    }
}

/// A request under way, until it is answered or nobody waits for its answer any more.
pub(crate) struct UnderWay(Arc<Pace>);

impl UnderWay {
    pub(crate) fn new(pace: &Arc<Pace>) -> UnderWay {
        pace.request_begins();
        UnderWay(Arc::clone(pace))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.request_ends();
    }
}

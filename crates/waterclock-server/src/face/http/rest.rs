//! What nobody has read of a request's body.
//!
//! In HTTP/1 it is in the way of the next request. What has come is read and forgotten; where more is
//! to come, hyper closes the connection, and the peer should hear of that before it sends the next.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;
use tokio::time::timeout;

/// What was sent together with its head has come by then.
const HAS_COME: Duration = Duration::from_millis(50);
/// More than that, in bytes, is not worth reading.
const MOST_BYTES: usize = 64 * 1_024;

/// The rest of a body, if there is one; shared by a connection and the request it is at.
#[derive(Clone, Default)]
pub(super) struct Rest(Arc<Mutex<Option<Incoming>>>);

impl Rest {
    /// Whether nothing is left, or no more than could be read and forgotten.
    pub(super) async fn is_gone(&self) -> bool {
        let rest = self.0.lock().take();
        let Some(mut body) = rest else { return true };
        let forget = async {
            let mut bytes = 0;
            while let Some(Ok(frame)) = body.frame().await {
                bytes += frame.data_ref().map_or(0, Bytes::len);
                if bytes > MOST_BYTES {
                    return false;
                }
            }
            body.is_end_stream()
        };
        timeout(HAS_COME, forget).await.unwrap_or(false)
    }
}

/// The body of a request, which leaves behind what nobody reads.
pub(super) struct Leaving {
    body: Option<Incoming>,
    rest: Option<Rest>,
}

impl Leaving {
    pub(super) fn new(body: Incoming, rest: Option<Rest>) -> Leaving {
        Leaving { body: Some(body), rest }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let (Some(body), Some(Rest(rest))) = (self.body.take(), &self.rest)
            && !body.is_end_stream()
        {
            *rest.lock() = Some(body);
        }
    }
}

impl Body for Leaving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(&mut *body).poll_frame(context);
        if let Poll::Ready(None) = frame {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

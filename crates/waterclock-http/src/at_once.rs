//! Futures that are ready.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// What a future says that waits for nothing.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(said) => Some(said),
        Poll::Pending => None,
    }
}

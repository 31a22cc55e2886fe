use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use super::{HonourError, HonourFuture, Manner};

/// A client that keeps away from servers for as long as they ask for, by a
/// [`HonourLayer`](crate::HonourLayer).
pub struct Honour<Inner, R, P> {
    inner: Inner,
    manner: Arc<Manner<R, P>>,
}

impl<Inner, R, P> Honour<Inner, R, P> {
    pub(super) fn new(inner: Inner, manner: Arc<Manner<R, P>>) -> Self {
        Self { inner, manner }
    }
}

impl<Inner: Clone, R, P> Clone for Honour<Inner, R, P> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.manner))
    }
}

impl<Inner, R> Service<R> for Honour<Inner, R, Inner::Response>
where
    Inner: Service<R> + Clone,
{
    type Response = Inner::Response;
    type Error = HonourError<Inner::Error>;
    type Future = HonourFuture<Inner, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(HonourError::Inner)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let authority = (self.manner.authority)(&request);
        let now = self.manner.patience.now();
        if self.manner.not_before.wait(&authority, now).is_some() {
            // What is ready may hold something that others need: it is given back while this one waits.
            self.inner = self.inner.clone();
            let inner = self.inner.clone();
            return HonourFuture::waiting(Arc::clone(&self.manner), authority, inner, request);
        }
        let manner = Arc::clone(&self.manner);
        let again = manner.copy_for(manner.retries, &request);
        let again = again.map(|copy| (self.inner.clone(), copy));
        HonourFuture::sending(manner, authority, self.inner.call(request), again)
    }
}

impl<Inner: fmt::Debug, R, P> fmt::Debug for Honour<Inner, R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Honour").field("inner", &self.inner).finish_non_exhaustive()
    }
}

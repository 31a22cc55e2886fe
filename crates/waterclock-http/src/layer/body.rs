//! The body of a response, watched to its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::settle::OnEnd;
use crate::exchange::Ending;

pin_project! {
    /// The body of a response: the service's own, or a refusal.
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Served {
            #[pin]
            body: B,
            on_end: Option<Box<OnEnd>>,
        },
        Refused {
            bytes: Option<Bytes>,
        },
    }
}

impl<B> ResponseBody<B> {
    pub(super) fn refused(bytes: Bytes) -> Self {
        Self { kind: Kind::Refused { bytes: (!bytes.is_empty()).then_some(bytes) } }
    }
}

#[cfg(feature = "axum")]
impl ResponseBody<axum::body::Body> {
    /// As axum's body. Only a body that is watched to its end needs another box.
    pub(super) fn into_axum(self) -> axum::body::Body {
        match self.kind {
            Kind::Served { body, on_end: None } => body,
            Kind::Refused { bytes } => bytes.unwrap_or_default().into(),
            kind => axum::body::Body::new(Self { kind }),
        }
    }
}

impl<B: Body> ResponseBody<B> {
    pub(super) fn served(
        body: B,
        mut on_end: Option<Box<OnEnd>>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Self {
        if let Some(on_end) = &mut on_end {
            on_end.see_head(status, headers, body.size_hint().exact());
        }
        let mut served = Kind::Served { body, on_end };
        if let Kind::Served { body, on_end } = &mut served
            && body.is_end_stream()
        {
            // Servers do not poll a body that says it has ended.
            end(on_end, Ending::Complete);
        }
        Self { kind: served }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let (mut body, on_end) = match self.project().kind.project() {
            KindProjection::Refused { bytes } => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
            KindProjection::Served { body, on_end } => (body, on_end),
        };
        let polled = body.as_mut().poll_frame(context);
        if let Poll::Ready(polled) = &polled {
            match polled {
                Some(Ok(frame)) => watch(frame, on_end),
                Some(Err(_)) => end(on_end, Ending::Failed),
                None => end(on_end, Ending::Complete),
            }
            if body.is_end_stream() {
                end(on_end, Ending::Complete);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Served { body, .. } => body.is_end_stream(),
            Kind::Refused { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Served { body, .. } => body.size_hint(),
            Kind::Refused { bytes } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
        }
    }
}

fn watch(frame: &Frame<Bytes>, on_end: &mut Option<Box<OnEnd>>) {
    let Some(on_end) = on_end else { return };
    if let Some(data) = frame.data_ref() {
        on_end.see_bytes(data.remaining());
    }
    if let Some(trailers) = frame.trailers_ref() {
        on_end.see_trailers(trailers);
    }
}

fn end(on_end: &mut Option<Box<OnEnd>>, ending: Ending) {
    if let Some(on_end) = on_end.take() {
        on_end.end(ending);
    }
}

impl<B> std::fmt::Debug for ResponseBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.kind {
            Kind::Served { .. } => "ResponseBody::Served",
            Kind::Refused { .. } => "ResponseBody::Refused",
        })
    }
}

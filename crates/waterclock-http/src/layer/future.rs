//! The response, after the decision.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::ResponseBody;
use super::gate::Ruling;
use super::settle::OnEnd;
use crate::exchange::Ending;
use crate::fields::ResponseFields;

/// The contract of futures forbids this.
const POLLED_AGAIN: &str = "a response was polled again after it was ready";

type Deciding = Pin<Box<dyn Future<Output = (Parts, Ruling)> + Send>>;

pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit): it waits for the decision if necessary, then for
    /// the service's response.
    pub struct ResponseFuture<Inner, Sent>
    where
        Inner: Service<Request<Sent>>,
    {
        #[pin]
        state: State<Inner, Sent, Inner::Future>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Inner, Sent, Serving> {
        Deciding {
            deciding: Deciding,
            // What is needed after the decision.
            request: Option<(Sent, Inner)>,
        },
        Serving {
            #[pin]
            serving: Serving,
            fields: ResponseFields,
            on_end: Option<Box<OnEnd>>,
        },
        Refused {
            response: Option<Response<Bytes>>,
        },
    }
}

impl<Inner: Service<Request<Sent>>, Sent> ResponseFuture<Inner, Sent> {
    pub(super) fn deciding(deciding: Deciding, body: Sent, ready: Inner) -> Self {
        Self { state: State::Deciding { deciding, request: Some((body, ready)) } }
    }

    pub(super) fn serving(
        serving: Inner::Future,
        fields: ResponseFields,
        on_end: Option<Box<OnEnd>>,
    ) -> Self {
        Self { state: State::Serving { serving, fields, on_end } }
    }

    pub(super) fn refused(response: Response<Bytes>) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }
}

impl<Inner, Sent, Served> Future for ResponseFuture<Inner, Sent>
where
    Inner: Service<Request<Sent>, Response = Response<Served>>,
    Served: Body,
{
    type Output = Result<Response<ResponseBody<Served>>, Inner::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProjection::Deciding { deciding, request } => {
                    let (parts, ruling) = ready!(deciding.as_mut().poll(context));
                    let (body, mut ready) = request.take().expect(POLLED_AGAIN);
                    state.set(match ruling {
                        Ruling::Admit(fields, on_end) => {
                            let serving = ready.call(Request::from_parts(parts, body));
                            State::Serving { serving, fields, on_end }
                        }
                        Ruling::Refuse(response) => State::Refused { response: Some(response) },
                    });
                }
                StateProjection::Serving { serving, fields, on_end } => {
                    let served = ready!(serving.poll(context));
                    return Poll::Ready(finish(served, mem::take(fields), on_end.take()));
                }
                StateProjection::Refused { response } => {
                    let response = response.take().expect(POLLED_AGAIN);
                    return Poll::Ready(Ok(response.map(ResponseBody::refused)));
                }
            }
        }
    }
}

fn finish<Served: Body, E>(
    served: Result<Response<Served>, E>,
    fields: ResponseFields,
    on_end: Option<Box<OnEnd>>,
) -> Result<Response<ResponseBody<Served>>, E> {
    match served {
        Ok(response) => {
            let (mut head, body) = response.into_parts();
            fields.add_to(&mut head.headers);
            let body = ResponseBody::served(body, on_end, head.status, &head.headers);
            Ok(Response::from_parts(head, body))
        }
        Err(error) => {
            if let Some(on_end) = on_end {
                on_end.end(Ending::Failed);
            }
            Err(error)
        }
    }
}

impl<Inner: Service<Request<Sent>>, Sent> std::fmt::Debug for ResponseFuture<Inner, Sent> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseFuture")
    }
}

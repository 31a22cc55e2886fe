use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::ResponseBody;
use super::decide::{Admitted, Ruling};
use crate::exchange::Ending;

/// What the contract of futures forbids.
const AGAIN: &str = "a response was polled again after it was ready";

type Deciding = Pin<Box<dyn Future<Output = (Parts, Ruling)> + Send>>;

pin_project! {
    /// The response of a [`RateLimit`](crate::RateLimit): the decision first, where it takes its time, and
    /// then the service's own response, or a refusal.
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
            // Until the decision is made.
            held: Option<(Sent, Inner)>,
        },
        Serving {
            #[pin]
            serving: Serving,
            admitted: Option<Admitted>,
        },
        Refused {
            response: Option<Response<Bytes>>,
        },
    }
}

impl<Inner: Service<Request<Sent>>, Sent> ResponseFuture<Inner, Sent> {
    pub(super) fn deciding(deciding: Deciding, body: Sent, ready: Inner) -> Self {
        Self { state: State::Deciding { deciding, held: Some((body, ready)) } }
    }

    pub(super) fn serving(serving: Inner::Future, admitted: Admitted) -> Self {
        Self { state: State::Serving { serving, admitted: Some(admitted) } }
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
                StateProjection::Deciding { deciding, held } => {
                    let (parts, ruling) = ready!(deciding.as_mut().poll(context));
                    let (body, mut ready) = held.take().expect(AGAIN);
                    state.set(match ruling {
                        Ruling::Admit(admitted) => State::Serving {
                            serving: ready.call(Request::from_parts(parts, body)),
                            admitted: Some(admitted),
                        },
                        Ruling::Refuse(response) => State::Refused { response: Some(response) },
                    });
                }
                StateProjection::Serving { serving, admitted } => {
                    let served = ready!(serving.poll(context));
                    return Poll::Ready(finish(served, admitted.take().expect(AGAIN)));
                }
                StateProjection::Refused { response } => {
                    let response = response.take().expect(AGAIN);
                    return Poll::Ready(Ok(response.map(ResponseBody::refused)));
                }
            }
        }
    }
}

fn finish<Served: Body, E>(
    served: Result<Response<Served>, E>,
    admitted: Admitted,
) -> Result<Response<ResponseBody<Served>>, E> {
    let Admitted { fields, after } = admitted;
    let response = match served {
        Ok(response) => response,
        Err(error) => {
            if let Some(after) = after {
                after.end(Ending::Failed);
            }
            return Err(error);
        }
    };
    let (mut head, body) = response.into_parts();
    fields.add_to(&mut head.headers);
    let body = ResponseBody::served(body, after, head.status, &head.headers);
    Ok(Response::from_parts(head, body))
}

impl<Inner: Service<Request<Sent>>, Sent> std::fmt::Debug for ResponseFuture<Inner, Sent> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseFuture")
    }
}

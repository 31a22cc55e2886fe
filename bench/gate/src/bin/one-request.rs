//! One service, so many requests: for counting what the tower layer adds to each (see `instructions.sh --layer`).
//!
//! Requests are made and answered in memory. `bare` is the service without the layer, which the others are compared with.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;
use waterclock::store::now_or_never;
use waterclock::{Gcra, MemoryStore, Policy, TscClock};
use waterclock_http::{ClientIp, HeaderStyle, Key, RateLimitLayer, RateLimitLayerBuilder, Rule};

const KEYS: usize = 10_000;
const USAGE: &str = "usage: one-request bare|routes|header|ipv4|ipv6 REQUESTS";

type Error = Box<dyn std::error::Error>;
type Builder = RateLimitLayerBuilder<MemoryStore<TscClock>>;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, requests] = &args[..] else { return Err(USAGE.into()) };
    let requests: usize = requests.parse()?;
    match kind.as_str() {
        "bare" => run(Answers, requests),
        "routes" => run(built(routes()?)?.layer(Answers), requests),
        "header" => run(built(header()?)?.layer(Answers), requests),
        "ipv4" => run(built(address([192, 0, 2, 177])?)?.layer(Answers), requests),
        "ipv6" => {
            run(built(address([0x2001, 0xdb8, 7, 0xc0de, 1, 2, 3, 4])?)?.layer(Answers), requests)
        }
        _ => Err(USAGE.into()),
    }
}

/// As the server bench has it: two rules with a path each, and no header fields.
fn routes() -> Result<Builder, Error> {
    Ok(builder()
        .rule(Rule::new(policy("wide")?).path("/"))
        .rule(Rule::new(policy("narrow")?).path("/narrow"))
        .key(Key::header("x-user")))
}

/// One rule, a key in a header, and the fields of the IETF's draft.
fn header() -> Result<Builder, Error> {
    Ok(builder().rule(ietf()?).key(Key::header("x-user")))
}

/// The same by the client's address.
fn address(peer: impl Into<IpAddr>) -> Result<Builder, Error> {
    let peer = peer.into();
    Ok(builder().rule(ietf()?).key(ClientIp::default()).peer(move |_| peer))
}

fn ietf() -> Result<Rule, Error> {
    Ok(Rule::new(policy("wide")?).headers(HeaderStyle::Ietf))
}

fn builder() -> Builder {
    RateLimitLayer::builder(MemoryStore::new(1 << 20, TscClock::default()))
}

fn built(builder: Builder) -> Result<RateLimitLayer<MemoryStore<TscClock>>, Error> {
    Ok(now_or_never(builder.build()).ok_or("a store in memory answers at once")??)
}

/// Every request passes, and no key expires.
fn policy(name: &str) -> Result<Policy, Error> {
    let limit = Gcra::new(1_000_000, Duration::from_secs(100_000_000))?;
    Ok(Policy::new(name, [limit])?)
}

/// Answers 204 to everything.
#[derive(Clone)]
struct Answers;

impl Service<Request<()>> for Answers {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        black_box(&request);
        let mut response = Response::new(String::new());
        *response.status_mut() = StatusCode::NO_CONTENT;
        ready(Ok(response))
    }
}

fn run<S, B>(mut service: S, requests: usize) -> Result<(), Error>
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
{
    // Every key once, so that none is new later.
    send(&mut service, &users(KEYS)?);
    measured(&mut service, &users(requests)?);
    Ok(())
}

/// So many names of clients, always in the same order.
fn users(requests: usize) -> Result<Vec<HeaderValue>, Error> {
    let name = |i| format!("client-{:08}", i * 7_919 % KEYS);
    Ok((0..requests).map(|i| HeaderValue::try_from(name(i))).collect::<Result<_, _>>()?)
}

/// What callgrind counts.
#[inline(never)]
fn measured<S, B>(service: &mut S, users: &[HeaderValue])
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
{
    send(service, users);
}

fn send<S, B>(service: &mut S, users: &[HeaderValue])
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
{
    let context = &mut Context::from_waker(Waker::noop());
    for user in users {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        request.headers_mut().insert("x-user", user.clone());
        assert!(service.poll_ready(context).is_ready());
        let Poll::Ready(Ok(response)) = pin!(service.call(request)).poll(context) else {
            panic!("the response must be ready");
        };
        assert_eq!(response.status(), StatusCode::NO_CONTENT, "every request must pass");
        black_box(response);
    }
}

//! The same applications called in this process, without sockets: what is left is the layer.

use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Request, Response, StatusCode};
use tower::{Service, ServiceExt};
use waterclock::store::now_or_never;
use waterclock_bench::machine::cpu_time;
use waterclock_bench::measure::median;

use crate::Error;
use crate::field::Plan;
use crate::keys::drawn;
use crate::role::{floor, layered, tower_governor};

const REQUESTS: usize = 1 << 13;

/// Sends a request for each of these users.
type Calls = Box<dyn Fn(&[HeaderValue]) -> Result<(), Error>>;

/// Microseconds of processor time per request: bare, behind our layer, behind tower_governor.
pub fn measure(plan: &Plan) -> Result<[f64; 3], Error> {
    let ours = now_or_never(layered::service()).ok_or("a store in memory answers at once")??;
    let apps = [calls(floor::app()), calls(ours), calls(tower_governor::app()?)];
    let users = drawn(REQUESTS).into_iter().map(HeaderValue::try_from);
    let users: Vec<HeaderValue> = users.collect::<Result<_, _>>()?;
    let mut micros = [const { vec![] }; 3];
    for _ in 0..plan.rounds {
        for (app, micros) in apps.iter().zip(&mut micros) {
            micros.push(turn(app, &users, plan.time)?);
        }
    }
    Ok(micros.map(median))
}

/// Sends every request once, then measures for about a quarter of the time.
fn turn(app: &Calls, users: &[HeaderValue], time: Duration) -> Result<f64, Error> {
    app(users)?;
    let start = cpu_time();
    let mut requests = 0;
    while cpu_time() - start < time / 4 {
        app(users)?;
        requests += users.len();
    }
    Ok((cpu_time() - start).as_secs_f64() * 1e6 / requests as f64)
}

fn calls<S, B>(app: S) -> Calls
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone + 'static,
    B: 'static,
{
    Box::new(move |users| {
        let context = &mut Context::from_waker(Waker::noop());
        for user in users {
            let request = Request::post("/").header("x-user", user).body(Body::empty())?;
            // A clone for each request, as `axum::serve` makes.
            match pin!(app.clone().oneshot(request)).poll(context) {
                Poll::Ready(Ok(response)) if response.status() == StatusCode::NO_CONTENT => {}
                _ => return Err("it did not answer 204 at once".into()),
            }
        }
        Ok(())
    })
}

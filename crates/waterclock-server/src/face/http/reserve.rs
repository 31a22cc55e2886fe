//! `/v1/reserve` and `/v1/reservations`: hold an estimate, then settle it with what was used.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use waterclock::store::check_reservation_id;
use waterclock::{
    BadReservation, Cost, MAX_RESERVATION_ID, MAX_RESERVATION_TTL, MIN_RESERVATION_TTL, OnExpiry,
    Settled, Settlement, StoreError, Verb,
};
use waterclock_config::Micros;

use super::body::{Charges, CheckBody, Options, Verbs};
use super::check::{Decisions, refusal, to_checks, write_headers};
use super::field_set::FieldSet;
use super::problem::{Problem, json};
use super::request::{Call, Checks, PathOf};
use crate::engine::{Check, Engine, Holding, Reservation, Terms};
use crate::observe::Face;
use crate::otlp::{Span, traced};
use crate::server::Server;

/// Holds the charges of a body until they are settled.
pub(super) async fn reserve(call: Call<Checks>) -> Result<Response, Problem> {
    let metrics = call.server.engine.metrics();
    let span = Span::begin(metrics, Face::Http, "reserve", &call.parts.headers);
    traced(span, reserve_untraced(&call)).await
}

async fn reserve_untraced(call: &Call<Checks>) -> Result<Response, Problem> {
    let CheckBody { charges, options } = CheckBody::read(&call.body, Verbs::Reserve)?;
    let terms = terms(&options)?;
    let engine = &call.server.engine;
    let plan = engine.plan_knowing(charges.policies()).await;
    if let Charges::Several { atomic: false, .. } = charges {
        let detail = "a reservation holds all of its charges or none; leave `atomic` out";
        return Err(Problem::bad("atomic", detail));
    }
    let (checks, is_one) = to_checks(&plan, Verb::Check, &charges)?;
    let Holding { replies, reservation, .. } = hold(engine, terms, &checks).await?;
    let answer = Decisions::new(&checks, &replies, reservation.is_some(), is_one);
    let mut response = match &reservation {
        Some((id, expires_in)) => {
            let reservation = Reservation::new(id, *expires_in);
            json(StatusCode::CREATED, &Held { answer: &answer, reservation })
        }
        None => {
            let headers = &call.parts.headers;
            refusal(headers, &checks, &replies, &answer, FieldSet::ALL).map(Body::from)
        }
    };
    write_headers(&checks, &replies, response.headers_mut());
    Ok(response)
}

async fn hold(engine: &Engine, terms: Terms<'_>, checks: &[Check<'_>]) -> Result<Holding, Problem> {
    engine.reserve(Face::Http, terms, checks).await.map_err(|error| match error {
        StoreError::BadReservation(bad) => {
            // All other fields were validated before.
            let field = match bad {
                BadReservation::Lease { .. } => "ttl",
                BadReservation::NoCost => "cost",
                _ => "id",
            };
            Problem::bad(field, bad.to_string())
        }
        error => error.into(),
    })
}

/// The terms of a body. An error names the field.
fn terms<'a>(options: &'a Options<'_>) -> Result<Terms<'a>, Problem> {
    let id = options.id.as_ref().map(|id| checked_id(&id.0)).transpose()?;
    let ttl = options.ttl.as_ref().map(|ttl| checked_ttl(&ttl.0)).transpose()?;
    let on_expiry =
        options.on_expiry.as_ref().map_or(Some(OnExpiry::Keep), |word| OnExpiry::parse(&word.0));
    let on_expiry = on_expiry
        .ok_or_else(|| Problem::bad("on_expiry", "`on_expiry` must be \"keep\" or \"release\""))?;
    Ok(Terms { id, ttl, on_expiry })
}

fn checked_ttl(text: &str) -> Result<Duration, Problem> {
    let ttl = Micros::parse(text).map_err(|half| Problem::bad("ttl", format!("`ttl` {half}")))?;
    let ttl = ttl.duration();
    if (MIN_RESERVATION_TTL..=MAX_RESERVATION_TTL).contains(&ttl) {
        return Ok(ttl);
    }
    Err(Problem::bad("ttl", "`ttl` must be from \"1ms\" to \"24h\""))
}

fn checked_id(id: &str) -> Result<&str, Problem> {
    check_reservation_id(id).map(|()| id).map_err(|_| {
        let detail = format!(
            "`id` must be 1 to {MAX_RESERVATION_ID} printable ASCII characters without spaces"
        );
        Problem::bad("id", detail)
    })
}

/// One decision or several, and the reservation.
#[derive(Serialize)]
struct Held<'a, T> {
    #[serde(flatten)]
    answer: &'a T,
    reservation: Reservation<'a>,
}

/// What was used: one cost, or one for each charge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Used {
    cost: Costs,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Costs {
    Several(Vec<Cost>),
    One(Cost),
}

impl Costs {
    fn as_slice(&self) -> &[Cost] {
        match self {
            Costs::One(cost) => std::slice::from_ref(cost),
            Costs::Several(costs) => costs,
        }
    }
}

/// Settles a reservation with what was used.
pub(super) async fn commit(path: PathOf<String>, call: Call<Checks>) -> Result<Response, Problem> {
    let Path(id) = path?;
    let Used { cost } = serde_json::from_slice(&call.body).map_err(|_| {
        let detail = "the body must be {\"cost\": units}, or a list of them for several charges";
        Problem::bad("cost", detail)
    })?;
    settle(&call.server, &id, Settlement::Commit(cost.as_slice())).await
}

/// Settles a reservation of which nothing was used.
pub(super) async fn cancel(path: PathOf<String>, call: Call<Checks>) -> Result<Response, Problem> {
    let Path(id) = path?;
    settle(&call.server, &id, Settlement::Cancel).await
}

#[derive(Serialize)]
struct SettledBody<'a> {
    id: &'a str,
    cancelled: bool,
    held: &'a [Cost],
    used: &'a [Cost],
}

async fn settle(server: &Server, id: &str, with: Settlement<'_>) -> Result<Response, Problem> {
    let id = checked_id(id)?;
    let settled = server.engine.settle(id, with).await.map_err(|error| match error {
        StoreError::BadReservation(bad) => Problem::bad("cost", bad.to_string()),
        error => error.into(),
    })?;
    let Settled { is_cancelled, held, used, .. } = &settled;
    Ok(json(StatusCode::OK, &SettledBody { id, cancelled: *is_cancelled, held, used }))
}

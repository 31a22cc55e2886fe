//! `/v1/reserve` and `/v1/reservations`: hold an estimate, settle the truth.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use waterclock::{
    Cost, MAX_RESERVATION_ID, MAX_RESERVATION_TTL, MIN_RESERVATION_TTL, OnExpiry, Settled,
    Settlement, StoreError, Verb,
};

use super::Shared;
use super::decide::{
    Decisions, Prepared, json, nothing_said, prepare, prepare_all, refusal, tell, violated,
    wants_problem,
};
use super::guard::{body_of, open, room};
use super::problem::Problem;
use super::question::{Beside, Call, Charges, Question};
use crate::access::Role;
use crate::decision_line::micros_up;
use crate::engine::{Check, Engine, Holding, Reply, Terms};
use crate::observe::Face;
use crate::server::Server;
use waterclock_config::Micros;

pub(super) async fn reserve(
    engine: &Engine,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, Problem> {
    let Question { charges, beside } = Question::read(body, Call::Reserve)?;
    let terms = terms(&beside)?;
    let plan = engine.plan();
    match &charges {
        Charges::One(line) => {
            let lines = [prepare(&plan, Verb::Check, line)?];
            let Holding { replies, reservation } = hold(engine, terms, &lines).await?;
            let answer = lines[0].answer(replies.first().ok_or_else(nothing_said)?);
            Ok(answered(headers, &lines, &replies, reservation, &answer))
        }
        Charges::Several { atomic: false, .. } => {
            Err(Problem::bad("atomic", "a reservation holds all of its charges or nothing"))
        }
        Charges::Several { lines, .. } => {
            let lines = prepare_all(&plan, Verb::Check, lines)?;
            let Holding { replies, reservation } = hold(engine, terms, &lines).await?;
            let answers = lines.iter().zip(&replies).map(|(line, reply)| line.answer(reply));
            let answer = Decisions { allowed: reservation.is_some(), decisions: answers.collect() };
            Ok(answered(headers, &lines, &replies, reservation, &answer))
        }
    }
}

async fn hold(
    engine: &Engine,
    terms: Terms<'_>,
    lines: &[Prepared<'_>],
) -> Result<Holding, Problem> {
    let asks: Vec<Check<'_>> = lines.iter().map(Prepared::ask).collect();
    engine.reserve(Face::Http, terms, &asks).await.map_err(|error| match error {
        StoreError::BadReservation(reason) => {
            let leases =
                lines.iter().filter_map(|line| line.served.scope().policy().shortest_lease());
            let is_long = terms.ttl.is_some_and(|ttl| leases.min().is_some_and(|most| ttl > most));
            // All else that can be wrong with it was looked at before.
            let field = match terms.on_expiry {
                _ if is_long => "ttl",
                // Memory takes it, and Redis takes nothing else then.
                OnExpiry::Release if engine.store().name() == "redis" => "on_expiry",
                _ => "id",
            };
            Problem::bad(field, reason)
        }
        error => error.into(),
    })
}

/// On which terms something is to be held, each of them named where it is wrong.
fn terms<'a>(beside: &'a Beside<'_>) -> Result<Terms<'a>, Problem> {
    let id = beside.id.as_ref().map(|id| checked_id(&id.0)).transpose()?;
    let ttl = beside.ttl.as_ref().map(|ttl| checked_ttl(&ttl.0)).transpose()?;
    let on_expiry = match beside.on_expiry.as_ref().map(|word| &*word.0) {
        None | Some("keep") => OnExpiry::Keep,
        Some("release") => OnExpiry::Release,
        Some(_) => {
            let detail = "`on_expiry` must be \"keep\" or \"release\"";
            return Err(Problem::bad("on_expiry", detail));
        }
    };
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
    let fits = (1..=MAX_RESERVATION_ID).contains(&id.len());
    if fits && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(id);
    }
    let detail =
        format!("`id` must be 1 to {MAX_RESERVATION_ID} printable ASCII characters without spaces");
    Err(Problem::bad("id", detail))
}

/// A decision, or several, and what they hold.
#[derive(Serialize)]
struct Held<'a, T> {
    #[serde(flatten)]
    answer: &'a T,
    reservation: Reservation<'a>,
}

#[derive(Serialize)]
struct Reservation<'a> {
    id: &'a str,
    expires_in_us: u64,
}

fn answered<T: Serialize>(
    asked: &HeaderMap,
    lines: &[Prepared<'_>],
    replies: &[Reply],
    reservation: Option<(String, Duration)>,
    answer: &T,
) -> Response {
    let lines: Vec<&Prepared<'_>> = lines.iter().collect();
    let mut response = match &reservation {
        Some((id, expires_in)) => {
            let reservation = Reservation { id, expires_in_us: micros_up(*expires_in) };
            json(StatusCode::CREATED, &Held { answer, reservation })
        }
        None if wants_problem(asked) => refusal(answer, violated(&lines, replies)),
        None => json(StatusCode::TOO_MANY_REQUESTS, answer),
    };
    tell(&lines, replies, response.headers_mut());
    response
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
pub(super) async fn commit(
    State(server): Shared,
    Path(id): Path<String>,
    parts: Parts,
    body: Body,
) -> Response {
    let done = async {
        open(&server, &parts, Role::Check)?;
        let body = body_of(&server, &parts.headers, body).await?;
        let _room = room(&server)?;
        let Used { cost } = serde_json::from_slice(&body).map_err(|_| {
            let detail =
                "the body must be {\"cost\": units}, or a list of them for several charges";
            Problem::bad("cost", detail)
        })?;
        settle(&server, &id, Settlement::Commit(cost.as_slice())).await
    };
    done.await.unwrap_or_else(|problem: Problem| problem.into_response())
}

/// Settles a reservation of which nothing was used.
pub(super) async fn cancel(
    State(server): Shared,
    Path(id): Path<String>,
    parts: Parts,
) -> Response {
    let done = async {
        open(&server, &parts, Role::Check)?;
        let _room = room(&server)?;
        settle(&server, &id, Settlement::Cancel).await
    };
    done.await.unwrap_or_else(|problem: Problem| problem.into_response())
}

#[derive(Serialize)]
struct SettledLine<'a> {
    id: &'a str,
    cancelled: bool,
    held: &'a [Cost],
    used: &'a [Cost],
}

async fn settle(server: &Server, id: &str, with: Settlement<'_>) -> Result<Response, Problem> {
    let id = checked_id(id)?;
    let settled = server.engine.settle(id, with).await.map_err(|error| match error {
        StoreError::BadReservation(reason) => Problem::bad("cost", reason),
        error => error.into(),
    })?;
    let Settled { is_cancelled, held, used } = &settled;
    Ok(json(StatusCode::OK, &SettledLine { id, cancelled: *is_cancelled, held, used }))
}

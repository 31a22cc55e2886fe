//! `/v1/history`: decisions of the last hour by the second, and of the last day by the minute. `/v1/refused`: the most
//! refused keys, of all policies or of one.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use waterclock::Timestamp;
use waterclock_config::Micros;

use super::problem::{Problem, json};
use super::query::Query;
use super::request::{Access, Reads};
use crate::observe::{Asked, Decided, Face, MAX_POLICIES, Quantiles, Resolution, SECONDS};
use crate::server::Server;

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Points in one answer about one policy, or about all together.
const MAX_POINTS: usize = SECONDS;
/// The same if each policy has its own: there may be 64 of them.
const MAX_POINTS_EACH: usize = 120;

#[derive(Serialize)]
struct HistoryLine {
    /// The end of the last point, in microseconds since the Unix epoch.
    end_us: u64,
    /// How long each point is.
    step_us: u64,
    policy: Option<String>,
    /// Null for a policy without a series of its own.
    decisions: Option<Columns>,
    latency: BTreeMap<&'static str, LatencyColumns>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<Vec<NamedColumns>>,
}

/// Decisions in each step, oldest first.
#[derive(Serialize)]
struct Columns {
    allowed: Vec<u32>,
    refused: Vec<u32>,
    shadow_refused: Vec<u32>,
    error: Vec<u32>,
}

#[derive(Serialize)]
struct NamedColumns {
    name: Box<str>,
    #[serde(flatten)]
    columns: Columns,
}

/// How long half of the decisions took at most, and 99 of 100. Null where there were none.
#[derive(Serialize)]
struct LatencyColumns {
    p50_us: Vec<Option<f64>>,
    p99_us: Vec<Option<f64>>,
}

impl Columns {
    fn of(points: &[Decided]) -> Columns {
        let column = |of: fn(&Decided) -> u32| points.iter().map(of).collect();
        Columns {
            allowed: column(|point| point.allowed),
            refused: column(|point| point.refused),
            shadow_refused: column(|point| point.shadow_refused),
            error: column(|point| point.error),
        }
    }
}

impl LatencyColumns {
    fn of(points: &[Option<Quantiles>]) -> LatencyColumns {
        let column = |of: fn(Quantiles) -> f64| points.iter().map(|point| point.map(of)).collect();
        LatencyColumns { p50_us: column(Quantiles::p50_us), p99_us: column(Quantiles::p99_us) }
    }
}

/// What is asked for, by its parameters.
struct Wish {
    asked: Asked,
    step_us: u64,
    policy: Option<String>,
    by_policy: bool,
}

impl Wish {
    fn read(query: &str) -> Result<Wish, Problem> {
        let query = Query::read(query);
        query.allow_only(&["policy", "last", "step", "by_policy"])?;
        let duration = |name: &'static str| {
            let text = query.get(name);
            let parsed = text.map(|text| Micros::parse(&text)).transpose();
            parsed.map_err(|error| Problem::bad(name, format!("`{name}`: {error}")))
        };
        let last = duration("last")?.map_or(HOUR, |last| last.0);
        if !(SECOND..=DAY).contains(&last) {
            return Err(Problem::bad("last", "`last` must be from 1s to 1d"));
        }
        let (ring, unit) = match last <= HOUR {
            true => (Resolution::Second, SECOND),
            false => (Resolution::Minute, MINUTE),
        };
        let step_us = duration("step")?.map_or(unit, |step| step.0);
        if step_us == 0 || step_us % unit != 0 || step_us > last {
            let whole = if unit == SECOND { "seconds" } else { "minutes beyond the last hour" };
            let detail = format!("`step` must be whole {whole}, and at most `last`");
            return Err(Problem::bad("step", detail));
        }
        let by_policy = match query.get("by_policy").as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => return Err(Problem::bad("by_policy", "`by_policy` must be true or false")),
        };
        let policy = query.get("policy").map(|name| name.into_owned());
        if by_policy && policy.is_some() {
            return Err(Problem::bad("by_policy", "`by_policy` is for all policies, not for one"));
        }
        let most = usize::try_from(last / step_us).unwrap_or(usize::MAX);
        let bound = if by_policy { MAX_POINTS_EACH } else { MAX_POINTS };
        if most > bound {
            let detail = format!("that is {most} points; at most {bound}: choose a longer `step`");
            return Err(Problem::bad("step", detail));
        }
        Ok(Wish { asked: Asked { ring, step: step_us / unit, most }, step_us, policy, by_policy })
    }
}

/// What was decided lately.
pub(super) async fn history(access: Access<Reads>, parts: Parts) -> Result<Response, Problem> {
    let wish = Wish::read(parts.uri.query().unwrap_or_default())?;
    if let Some(name) = &wish.policy {
        known(&access.server, name)?;
    }
    Ok(access.server.read_at_length(move |server| json(StatusCode::OK, &line(server, wish))).await)
}

/// A policy in force; or one that is only in the history, such as `CL.THROTTLE`'s.
fn known(server: &Server, name: &str) -> Result<(), Problem> {
    let engine = &server.engine;
    let is_known = engine.metrics().history().knows(name) || name == engine.throttle_family();
    if !is_known {
        engine.plan().find(name)?;
    }
    Ok(())
}

fn line(server: &Server, wish: Wish) -> HistoryLine {
    let Wish { asked, step_us, policy, by_policy } = wish;
    let history = server.engine.metrics().history();
    let told = history.read(policy.as_deref(), asked);
    let faces = Face::ALL.into_iter().zip(told.latency);
    let latency = faces.filter_map(|(face, points)| {
        points.map(|points| (face.name(), LatencyColumns::of(&points)))
    });
    let named = |(name, points): (Box<str>, Vec<Decided>)| {
        let columns = Columns::of(&points);
        NamedColumns { name, columns }
    };
    HistoryLine {
        end_us: micros(server.started(), told.end),
        step_us,
        decisions: told.decided.as_deref().map(Columns::of),
        latency: latency.collect(),
        policies: by_policy.then(|| {
            let policies = history.by_policy(asked);
            debug_assert!(policies.len() <= MAX_POLICIES, "the history is bounded");
            policies.into_iter().map(named).collect()
        }),
        policy,
    }
}

/// So many seconds after an instant, in microseconds since the Unix epoch.
fn micros(from: Timestamp, seconds: u64) -> u64 {
    from.as_nanos() / 1_000 + u64::try_from(Duration::from_secs(seconds).as_micros()).unwrap_or(0)
}

/// The most refused keys.
pub(super) async fn refused(access: Access<Reads>, parts: Parts) -> Result<Response, Problem> {
    let query = Query::read(parts.uri.query().unwrap_or_default());
    query.allow_only(&["policy"])?;
    let policy = query.get("policy");
    if let Some(name) = &policy {
        known(&access.server, name)?;
    }
    let top = access.server.engine.top_refused(policy.as_deref());
    Ok(json(StatusCode::OK, &top))
}

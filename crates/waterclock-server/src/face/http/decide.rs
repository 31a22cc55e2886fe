//! `/v1/check`, `/v1/peek`, `/v1/refund`, `/v1/report`: from a question to asks, and from replies to JSON.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use waterclock::{Cost, StoreError, Verb};

use super::problem::{PROBLEM_JSON, Problem, without_hosts};
use super::question::{Call, Charges, Line, Question};
use crate::decision_line::DecisionLine;
use crate::engine::{ActivePolicy, Check, Engine, Key, Plan, Reply, TIER};
use crate::observe::Face;

/// One line, ready to be asked.
pub(super) struct Prepared<'a> {
    pub(super) served: &'a Arc<ActivePolicy>,
    key: Key<'a>,
    cost: Cost,
    tier: Option<Cow<'a, str>>,
}

impl Prepared<'_> {
    pub(super) fn ask(&self) -> Check<'_> {
        let tier = self.tier.as_deref();
        Check { policy: self.served, key: &self.key, cost: self.cost.clone(), tier, rate: None }
    }

    pub(super) fn answer<'r>(&'r self, reply: &'r Reply) -> DecisionLine<'r> {
        let key = std::str::from_utf8(self.key.bytes()).unwrap_or_default();
        DecisionLine::in_full(self.served.name(), &reply.policy, key, &self.cost, &reply.answer)
    }

    fn made<'r>(&'r self, reply: &'r Result<Reply, StoreError>) -> Made<'r> {
        match reply {
            Ok(reply) => Made::Decision(self.answer(reply)),
            Err(error) => Made::Failure {
                policy: self.served.name(),
                cost: &self.cost,
                allowed: false,
                error: without_hosts(error),
            },
        }
    }
}

pub(super) async fn decide(
    engine: &Engine,
    verb: Verb,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, Problem> {
    let question = Question::read(body, Call::Decide)?;
    decide_about(engine, &engine.plan(), verb, headers, &question.charges).await
}

/// Decides about charges that were read already.
pub(super) async fn decide_about(
    engine: &Engine,
    plan: &Plan,
    verb: Verb,
    headers: &HeaderMap,
    charges: &Charges<'_>,
) -> Result<Response, Problem> {
    match charges {
        Charges::One(line) => {
            let line = prepare(plan, verb, line)?;
            one(engine, verb, headers, &line).await
        }
        Charges::Several { lines, atomic } => {
            let lines = prepare_all(plan, verb, lines)?;
            match atomic {
                true => together(engine, verb, headers, &lines).await,
                false => Ok(each(engine, verb, &lines).await),
            }
        }
    }
}

pub(super) fn prepare_all<'a>(
    plan: &'a Plan,
    verb: Verb,
    lines: &'a [Line<'_>],
) -> Result<Vec<Prepared<'a>>, Problem> {
    let prepare =
        |(at, line)| prepare(plan, verb, line).map_err(|problem: Problem| problem.in_line(at));
    lines.iter().enumerate().map(prepare).collect()
}

pub(super) fn prepare<'a>(
    plan: &'a Plan,
    verb: Verb,
    line: &'a Line<'_>,
) -> Result<Prepared<'a>, Problem> {
    let served = plan.find(&line.policy.0).map_err(Problem::not_found)?;
    let key = match (&line.key, &line.fields) {
        (Some(key), None) => served.key(key.0.as_bytes())?,
        (None, Some(fields)) => served.key_of_fields(|name| fields.get(name))?,
        (Some(_), Some(_)) => {
            return Err(Problem::bad("key", "send `key` or `fields`, not both"));
        }
        (None, None) => {
            return Err(Problem::bad("key", "`key` is missing; send `key` or `fields`"));
        }
    };
    let named = || line.fields.as_ref().and_then(|fields| fields.get(TIER));
    let tier = line.tier.as_ref().map(|tier| Cow::Borrowed(&*tier.0)).or_else(named);
    let cost = price(served, verb, line.cost.as_ref())?;
    Ok(Prepared { served, key, cost, tier })
}

/// How much it is, as the policy counts.
pub(super) fn price(
    served: &ActivePolicy,
    verb: Verb,
    cost: Option<&Cost>,
) -> Result<Cost, Problem> {
    served.price(verb, cost).map_err(|error| Problem::bad("cost", error.to_string()))
}

async fn one(
    engine: &Engine,
    verb: Verb,
    asked: &HeaderMap,
    line: &Prepared<'_>,
) -> Result<Response, Problem> {
    let replies = engine.apply(Face::Http, verb, &[line.ask()]).await?;
    let reply = replies.first().ok_or_else(nothing_said)?;
    let refused = verb == Verb::Check && reply.is_refusal();
    let answer = line.answer(reply);
    let mut response = if refused && wants_problem(asked) {
        refusal(&answer, violated(&[line], &replies))
    } else {
        json(if refused { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK }, &answer)
    };
    if verb == Verb::Check {
        tell(&[line], &replies, response.headers_mut());
    }
    Ok(response)
}

#[derive(Serialize)]
pub(super) struct Decisions<'a> {
    pub(super) allowed: bool,
    pub(super) decisions: Vec<DecisionLine<'a>>,
}

async fn together(
    engine: &Engine,
    verb: Verb,
    asked: &HeaderMap,
    lines: &[Prepared<'_>],
) -> Result<Response, Problem> {
    let asks: Vec<Check<'_>> = lines.iter().map(Prepared::ask).collect();
    let replies = engine.apply(Face::Http, verb, &asks).await?;
    let refused = verb == Verb::Check && replies.iter().any(Reply::is_refusal);
    let decisions = lines.iter().zip(&replies).map(|(line, reply)| line.answer(reply)).collect();
    let answer = Decisions { allowed: !refused, decisions };
    let lines: Vec<&Prepared<'_>> = lines.iter().collect();
    let mut response = match (refused, wants_problem(asked)) {
        (true, true) => refusal(&answer, violated(&lines, &replies)),
        (true, false) => json(StatusCode::TOO_MANY_REQUESTS, &answer),
        (false, _) => json(StatusCode::OK, &answer),
    };
    if verb == Verb::Check {
        tell(&lines, &replies, response.headers_mut());
    }
    Ok(response)
}

/// Decisions that have nothing to do with each other; one that could not be made says why.
#[derive(Serialize)]
struct Each<'a> {
    allowed: bool,
    decisions: Vec<Made<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Made<'a> {
    Decision(DecisionLine<'a>),
    Failure { policy: &'a str, cost: &'a Cost, allowed: bool, error: String },
}

async fn each(engine: &Engine, verb: Verb, lines: &[Prepared<'_>]) -> Response {
    let asks: Vec<Check<'_>> = lines.iter().map(Prepared::ask).collect();
    let replies = engine.apply_each(Face::Http, verb, &asks).await;
    let passes = |reply: &Result<Reply, _>| reply.as_ref().is_ok_and(|reply| !reply.is_refusal());
    let allowed = verb != Verb::Check || replies.iter().all(passes);
    let decisions = lines.iter().zip(&replies).map(|(line, reply)| line.made(reply)).collect();
    json(StatusCode::OK, &Each { allowed, decisions })
}

/// The header fields of each policy, in its own style.
pub(super) fn tell(lines: &[&Prepared<'_>], replies: &[Reply], headers: &mut HeaderMap) {
    super::told(lines.iter().map(|line| line.served), replies, headers);
}

/// `policy.limit` of everything that refused.
pub(super) fn violated(lines: &[&Prepared<'_>], replies: &[Reply]) -> Vec<String> {
    let of_reply = |(line, reply): (&&Prepared<'_>, &Reply)| {
        let name = line.served.name().to_owned();
        let refused_by = reply.answer.decision.refused_by();
        let names: Vec<String> =
            reply.policy.names(refused_by).map(|limit| format!("{name}.{limit}")).collect();
        // Whoever is blocked is refused by the policy as a whole.
        if names.is_empty() && reply.is_refusal() { vec![name] } else { names }
    };
    lines.iter().zip(replies).flat_map(of_reply).collect()
}

#[derive(Serialize)]
struct Refusal<'a, T> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    #[serde(rename = "violated-policies")]
    violated: Vec<String>,
    #[serde(flatten)]
    answer: &'a T,
}

pub(super) fn refusal<T: Serialize>(answer: &T, violated: Vec<String>) -> Response {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let body = Refusal {
        r#type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
        title: "The request exceeds a limit",
        status: status.as_u16(),
        violated,
        answer,
    };
    let mut response = json(status, &body);
    response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
    response
}

pub(super) fn wants_problem(asked: &HeaderMap) -> bool {
    let accepts = |value: &HeaderValue| {
        value.to_str().is_ok_and(|value| value.contains("application/problem+json"))
    };
    asked.get_all(header::ACCEPT).iter().any(accepts)
}

pub(super) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

pub(super) fn nothing_said() -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the store answered nothing")
}

//! `/v1/report`: how something ended, or what it cost in the end.

use axum::body::Bytes;
use axum::response::Response;
use http::HeaderMap;
use waterclock::{Outcome, Verb};

use super::decide::decide_about;
use super::problem::Problem;
use super::question::{Call, Charges, Line, Question};
use crate::engine::{Engine, Plan};

pub(super) async fn report(
    engine: &Engine,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, Problem> {
    let Question { charges, beside } = Question::read(body, Call::Report)?;
    let plan = engine.plan();
    let verb = match beside.outcome.as_ref().map(|word| &*word.0) {
        Some("ok") => Verb::Report(Outcome::Ok),
        Some("error") => Verb::Report(Outcome::Error),
        Some(_) => {
            return Err(Problem::bad("outcome", "`outcome` must be \"ok\" or \"error\""));
        }
        None => {
            costs_are_named(&charges)?;
            Verb::Debit
        }
    };
    if verb != Verb::Debit {
        match &charges {
            Charges::One(line) => takes_reports(&plan, line)?,
            Charges::Several { lines, .. } => {
                lines.iter().try_for_each(|line| takes_reports(&plan, line))?;
            }
        }
    }
    decide_about(engine, &plan, verb, headers, &charges).await
}

/// Without an outcome, a report is about a cost, and nobody else knows which.
fn costs_are_named(charges: &Charges<'_>) -> Result<(), Problem> {
    let missing = || Problem::bad("cost", "`cost` is missing; send `outcome` or `cost`");
    match charges {
        Charges::One(line) => line.cost.as_ref().map(drop).ok_or_else(missing),
        Charges::Several { lines, .. } => match lines.iter().position(|line| line.cost.is_none()) {
            Some(at) => Err(missing().in_line(at)),
            None => Ok(()),
        },
    }
}

/// Where nobody cares how something ended, whoever says so is mistaken.
fn takes_reports(plan: &Plan, line: &Line<'_>) -> Result<(), Problem> {
    let served = plan.find(&line.policy.0).map_err(Problem::not_found)?;
    if served.scope().policy().takes_reports() {
        return Ok(());
    }
    let detail = format!("policy `{}` has no error-rate limit; report a `cost`", served.name());
    Err(Problem::bad("outcome", detail))
}

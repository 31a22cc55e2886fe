//! `/v1/report`: how something ended, or what it cost in the end.

use axum::body::Bytes;
use axum::response::Response;
use http::HeaderMap;
use tollgate::Verb;

use super::decide::decide_about;
use super::problem::Problem;
use super::question::{Call, Charges, Question};
use crate::engine::Engine;

pub(super) async fn report(
    engine: &Engine,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response, Problem> {
    let Question { charges, beside } = Question::read(body, Call::Report)?;
    if let Some(outcome) = beside.outcome {
        let detail = format!("outcomes cannot be reported here: {}", outcome.0);
        return Err(Problem::bad("outcome", detail));
    }
    if matches!(&charges, Charges::One(line) if line.cost.is_none()) {
        return Err(Problem::bad("cost", "`cost` is missing; send `outcome` or `cost`"));
    }
    decide_about(engine, &engine.plan(), Verb::Debit, headers, &charges).await
}

//! Check, Peek, Refund, CheckAll and Report.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tonic::Status;
use waterclock::{Cost, Factor, Outcome, Verb};

use super::super::proto::rate_limiter::{
    CheckAllRequest, CheckAllResponse, CheckRequest, Decision, ReportRequest,
};
use super::decision;
use super::status::{in_check, of_charge, of_store, wrong};
use crate::engine::{Check, Plan, Reply, missing_answer};
use crate::face::charge::{Asked, takes_outcomes};
use crate::face::http::without_hosts;
use crate::observe::Face;
use crate::server::Server;

/// Checks in one message.
pub(super) const MAX_CHECKS: usize = 1_024;
/// Fields of one check.
const MAX_FIELDS: usize = 64;

/// Decides about one check.
pub(super) async fn one(
    server: &Server,
    verb: Verb,
    request: CheckRequest,
) -> Result<Decision, Status> {
    let request = Request::read(&request)?;
    let plan = server.engine.plan_knowing([request.policy].into_iter()).await;
    decide_one(server, &request.check(&plan, verb)?, verb).await
}

async fn decide_one(server: &Server, check: &Check<'_>, verb: Verb) -> Result<Decision, Status> {
    let checks = std::slice::from_ref(check);
    let replies = server.engine.apply(Face::Grpc, verb, checks).await;
    let replies = replies.map_err(|error| of_store(&error))?;
    let reply = replies.first().ok_or_else(|| of_store(&missing_answer()))?;
    Ok(decision::of_reply(check, reply))
}

/// Decides about several checks: all or none, or each on its own.
pub(super) async fn all(
    server: &Server,
    request: CheckAllRequest,
) -> Result<CheckAllResponse, Status> {
    let requests = read_several(&request.checks)?;
    let plan = server.engine.plan_knowing(requests.iter().map(|request| request.policy)).await;
    let checks = to_checks(&plan, &requests)?;
    if request.atomic.unwrap_or(true) {
        let replies = server.engine.apply(Face::Grpc, Verb::Check, &checks).await;
        let replies = replies.map_err(|error| of_store(&error))?;
        return Ok(CheckAllResponse {
            allowed: !replies.iter().any(Reply::is_refusal),
            decisions: decisions(&checks, &replies),
        });
    }
    let replies = server.engine.apply_each(Face::Grpc, Verb::Check, &checks).await;
    let passes = |reply: &Result<Reply, _>| reply.as_ref().is_ok_and(|reply| !reply.is_refusal());
    let decided = checks.iter().zip(&replies).map(|(check, reply)| match reply {
        Ok(reply) => decision::of_reply(check, reply),
        Err(error) => decision::of_error(check, without_hosts(error)),
    });
    Ok(CheckAllResponse { allowed: replies.iter().all(passes), decisions: decided.collect() })
}

/// An outcome for error-rate limits, or a cost that is known only now.
pub(super) async fn report(server: &Server, request: ReportRequest) -> Result<Decision, Status> {
    let charge = request.check.ok_or_else(|| wrong("check", "`check` is missing"))?;
    let charge = Request::read(&charge)?;
    let plan = server.engine.plan_knowing([charge.policy].into_iter()).await;
    let verb = match request.outcome.as_deref() {
        Some("ok") => Verb::Report(Outcome::Ok),
        Some("error") => Verb::Report(Outcome::Error),
        Some(_) => return Err(wrong("outcome", "`outcome` must be \"ok\" or \"error\"")),
        None if charge.cost.is_none() => {
            return Err(wrong("cost", "`cost` is missing; send `outcome` or `cost`"));
        }
        None => Verb::Debit,
    };
    if verb != Verb::Debit {
        takes_outcomes(&plan, charge.policy).map_err(|wrong| of_charge(&wrong))?;
    }
    decide_one(server, &charge.check(&plan, verb)?, verb).await
}

/// A check as the message has it, with a cost and a factor that can be read.
pub(super) struct Request<'a> {
    pub(super) policy: &'a str,
    cost: Option<Cost>,
    factor: Option<Factor>,
    message: &'a CheckRequest,
}

impl<'a> Request<'a> {
    pub(super) fn read(message: &'a CheckRequest) -> Result<Request<'a>, Status> {
        if message.policy.is_empty() {
            return Err(wrong("policy", "`policy` must be the name of a policy"));
        }
        if message.fields.len() > MAX_FIELDS {
            return Err(wrong("fields", &format!("`fields` must hold at most {MAX_FIELDS}")));
        }
        let factor = message.factor.as_deref().map(str::parse::<Factor>).transpose();
        Ok(Request {
            policy: &message.policy,
            cost: cost_of(message.cost, &message.costs)?,
            factor: factor.map_err(|error| wrong("factor", &error.to_string()))?,
            message,
        })
    }

    pub(super) fn check<'r>(&'r self, plan: &'r Plan, verb: Verb) -> Result<Check<'r>, Status> {
        let Request { message, .. } = self;
        let asked = Asked {
            policy: plan.find(self.policy).map_err(|unknown| of_charge(&unknown.into()))?,
            key: message.key.as_deref().map(str::as_bytes),
            tier: message.tier.as_deref(),
            factor: self.factor,
            cost: self.cost.as_ref(),
        };
        let fields = Some(&message.fields).filter(|fields| !fields.is_empty());
        let field = |fields: &'r BTreeMap<String, String>| {
            move |name: &str| fields.get(name).map(|value| Cow::Borrowed(&**value))
        };
        asked.check(verb, fields.map(field)).map_err(|wrong| of_charge(&wrong))
    }
}

/// One number, or one for each unit.
pub(super) fn cost_of(
    cost: Option<u64>,
    costs: &BTreeMap<String, u64>,
) -> Result<Option<Cost>, Status> {
    if costs.is_empty() {
        return Ok(cost.map(Cost::from));
    }
    if cost.is_some_and(|cost| cost > 0) {
        return Err(wrong("costs", "send `cost` or `costs`, not both"));
    }
    let units = costs.iter().map(|(unit, units)| (unit.as_str().into(), *units)).collect();
    Cost::of_few_units(units).map(Some).map_err(|error| wrong("costs", &error.to_string()))
}

/// The checks of a list. Their number was bounded before it was decoded.
pub(super) fn read_several(messages: &[CheckRequest]) -> Result<Vec<Request<'_>>, Status> {
    if messages.is_empty() {
        return Err(wrong("checks", "`checks` must hold at least one check"));
    }
    let read = |(at, message)| Request::read(message).map_err(|status| in_check(&status, at));
    messages.iter().enumerate().map(read).collect()
}

pub(super) fn to_checks<'r>(
    plan: &'r Plan,
    requests: &'r [Request<'_>],
) -> Result<Vec<Check<'r>>, Status> {
    let check = |(at, request): (usize, &'r Request<'_>)| {
        request.check(plan, Verb::Check).map_err(|status| in_check(&status, at))
    };
    requests.iter().enumerate().map(check).collect()
}

pub(super) fn decisions(checks: &[Check<'_>], replies: &[Reply]) -> Vec<Decision> {
    checks.iter().zip(replies).map(|(check, reply)| decision::of_reply(check, reply)).collect()
}

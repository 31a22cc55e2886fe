//! `/v1/check`, `/v1/peek`, `/v1/refund`, `/v1/reset` and `/v1/report`: from a body to checks, and from replies to JSON.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Serialize, Serializer};
use waterclock::{Cost, Outcome, StoreError, Verb};
use waterclock_http::HeaderFields;

use super::body::{Charge, Charges, CheckBody, Verbs};
use super::field_set::FieldSet;
use super::json;
use super::problem::{PROBLEM_JSON, Problem, without_hosts, written};
use super::request::{Call, Checks, Question};
use crate::engine::{Check, Engine, Plan, Reply};
use crate::face::charge::{Asked, Finder, takes_outcomes};
use crate::observe::Face;
use crate::otlp::{Span, traced};
use waterclock_config::{DecisionLine, FactorJson};

/// Check, peek, refund or reset.
pub(super) async fn apply(verb: Verb, call: Call<Checks>) -> Result<Response, Problem> {
    Ok(answer(&call.server.engine, verb, call.question()).await?.map(Body::from))
}

/// The same for a request that did not come through the router.
pub(super) async fn answer(
    engine: &Engine,
    verb: Verb,
    question: Question<'_>,
) -> Result<http::Response<Bytes>, Problem> {
    let name = verb_name(verb);
    let span = Span::begin(engine.metrics(), Face::Http, name, question.headers);
    traced(span, answer_untraced(engine, verb, question)).await
}

/// The span of a verb.
fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Peek => "peek",
        Verb::Refund => "refund",
        Verb::Reset => "reset",
        Verb::Debit | Verb::Report(_) => "report",
        _ => "check",
    }
}

async fn answer_untraced(
    engine: &Engine,
    verb: Verb,
    question: Question<'_>,
) -> Result<http::Response<Bytes>, Problem> {
    let fields = match (verb, question.query) {
        (Verb::Check | Verb::Peek, Some(query)) => FieldSet::of_query(query)?,
        _ => FieldSet::ALL,
    };
    let body = CheckBody::read(question.body, Verbs::Decide)?;
    let plan = engine.plan_knowing(body.charges.policies()).await;
    decide(engine, &plan, verb, &body.charges, (question.headers, fields)).await
}

/// An outcome for error-rate limits, or a cost that is known only now.
pub(super) async fn report(call: Call<Checks>) -> Result<Response, Problem> {
    let metrics = call.server.engine.metrics();
    let span = Span::begin(metrics, Face::Http, "report", &call.parts.headers);
    traced(span, report_untraced(&call)).await
}

async fn report_untraced(call: &Call<Checks>) -> Result<Response, Problem> {
    let CheckBody { charges, options } = CheckBody::read(&call.body, Verbs::Report)?;
    let plan = call.server.engine.plan_knowing(charges.policies()).await;
    let verb = match options.outcome.as_ref().map(|word| &*word.0) {
        Some("ok") => Verb::Report(Outcome::Ok),
        Some("error") => Verb::Report(Outcome::Error),
        Some(_) => {
            return Err(Problem::bad("outcome", "`outcome` must be \"ok\" or \"error\""));
        }
        None => Verb::Debit,
    };
    for (at, charge) in charges.as_slice().iter().enumerate() {
        if verb != Verb::Debit {
            takes_outcomes(&plan, &charge.policy.0)?;
        } else if charge.cost.is_none() {
            let missing = Problem::bad("cost", "`cost` is missing; send `outcome` or `cost`");
            let is_one = matches!(charges, Charges::One(_));
            return Err(if is_one { missing } else { missing.in_check(at) });
        }
    }
    let asked = (&call.parts.headers, FieldSet::ALL);
    Ok(decide(&call.server.engine, &plan, verb, &charges, asked).await?.map(Body::from))
}

async fn decide(
    engine: &Engine,
    plan: &Plan,
    verb: Verb,
    charges: &Charges<'_>,
    (headers, fields): (&HeaderMap, FieldSet),
) -> Result<http::Response<Bytes>, Problem> {
    let (checks, is_one) = to_checks(plan, verb, charges)?;
    if let Charges::Several { atomic: false, .. } = charges {
        return Ok(decide_each(engine, verb, &checks, fields).await);
    }
    let replies = engine.apply(Face::Http, verb, &checks).await?;
    let refused = verb == Verb::Check && replies.iter().any(Reply::is_refusal);
    let body = Decisions::new(&checks, &replies, !refused, is_one);
    let mut response = match refused {
        true => refusal(headers, &checks, &replies, &body, fields),
        false => written(StatusCode::OK, json::write(&body, fields, checks.len())),
    };
    if verb == Verb::Check {
        write_headers(&checks, &replies, response.headers_mut());
    }
    Ok(response)
}

/// The checks of a body, and whether it is one without a list.
pub(super) fn to_checks<'a>(
    plan: &'a Plan,
    verb: Verb,
    charges: &'a Charges<'_>,
) -> Result<(Vec<Check<'a>>, bool), Problem> {
    let mut policies = Finder::new(plan);
    match charges {
        Charges::One(charge) => Ok((vec![to_check(&mut policies, verb, charge)?], true)),
        Charges::Several { charges, .. } => {
            let mut checks = Vec::with_capacity(charges.len());
            for (at, charge) in charges.iter().enumerate() {
                let check = to_check(&mut policies, verb, charge);
                checks.push(check.map_err(|problem| problem.in_check(at))?);
            }
            Ok((checks, false))
        }
    }
}

fn to_check<'a>(
    policies: &mut Finder<'a>,
    verb: Verb,
    charge: &'a Charge<'_>,
) -> Result<Check<'a>, Problem> {
    let factor = charge.factor.map(FactorJson::factor).transpose();
    let asked = Asked {
        factor: factor.map_err(|error| Problem::bad("factor", error.to_string()))?,
        policy: policies.find(&charge.policy.0)?,
        key: charge.key.as_ref().map(|key| key.0.as_bytes()),
        tier: charge.tier.as_ref().map(|tier| &*tier.0),
        cost: charge.cost.as_ref(),
    };
    let fields = charge.fields.as_ref();
    Ok(asked.check(verb, fields.map(|fields| |name: &str| fields.get(name)))?)
}

/// One decision, or several that were made together.
#[derive(Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "made once for each response, on the stack")]
pub(super) enum Decisions<'a> {
    One(DecisionLine<'a>),
    Several { allowed: bool, decisions: Vec<DecisionLine<'a>> },
}

impl<'a> Decisions<'a> {
    pub(super) fn new(
        checks: &'a [Check<'_>],
        replies: &'a [Reply],
        allowed: bool,
        is_one: bool,
    ) -> Decisions<'a> {
        let mut decisions = checks.iter().zip(replies).map(|(check, reply)| reply.line(check));
        match decisions.next() {
            Some(only) if is_one => Decisions::One(only),
            first => Decisions::Several {
                allowed,
                decisions: first.into_iter().chain(decisions).collect(),
            },
        }
    }
}

/// Decisions that were made independently. A check that failed has an error in its place.
#[derive(Serialize)]
struct EachDecision<'a> {
    allowed: bool,
    decisions: EachReply<'a>,
}

/// Decisions, made into lines one after the other as they are written.
struct EachReply<'a> {
    checks: &'a [Check<'a>],
    replies: &'a [Result<Reply, StoreError>],
}

impl Serialize for EachReply<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let replies = self.checks.iter().zip(self.replies);
        serializer.collect_seq(replies.map(|(check, reply)| ReplyLine { check, reply }))
    }
}

/// A decision, or an error in its place.
struct ReplyLine<'a> {
    check: &'a Check<'a>,
    reply: &'a Result<Reply, StoreError>,
}

impl Serialize for ReplyLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ReplyLine { check, reply } = self;
        match reply {
            Ok(reply) => reply.line(check).serialize(serializer),
            Err(error) => {
                let (policy, cost) = (check.policy.name(), &check.cost);
                let error = without_hosts(error);
                ErrorLine { policy, cost, allowed: false, error }.serialize(serializer)
            }
        }
    }
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    policy: &'a str,
    cost: &'a Cost,
    allowed: bool,
    error: String,
}

async fn decide_each(
    engine: &Engine,
    verb: Verb,
    checks: &[Check<'_>],
    fields: FieldSet,
) -> http::Response<Bytes> {
    let replies = engine.apply_each(Face::Http, verb, checks).await;
    let passes = |reply: &Result<Reply, _>| reply.as_ref().is_ok_and(|reply| !reply.is_refusal());
    let allowed = verb != Verb::Check || replies.iter().all(passes);
    let answer = EachDecision { allowed, decisions: EachReply { checks, replies: &replies } };
    written(StatusCode::OK, json::write(&answer, fields, checks.len()))
}

/// Writes the header fields of each policy in its style.
pub(super) fn write_headers(checks: &[Check<'_>], replies: &[Reply], headers: &mut HeaderMap) {
    let styled = checks.iter().zip(replies).map(|(check, reply)| reply.styled(check.policy));
    HeaderFields::for_check(styled).write_to(headers);
}

/// What a refusal has before its decisions, as problem+json.
#[derive(Serialize)]
struct Refusal {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    #[serde(rename = "violated-policies")]
    violated: Vec<String>,
}

/// 429 with the decisions: as problem+json, if the caller accepts that.
pub(super) fn refusal<T: Serialize>(
    asked: &HeaderMap,
    checks: &[Check<'_>],
    replies: &[Reply],
    answer: &T,
    fields: FieldSet,
) -> http::Response<Bytes> {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let answer = json::write(answer, fields, checks.len());
    let accepts_problem = |value: &HeaderValue| {
        value.to_str().is_ok_and(|value| value.contains("application/problem+json"))
    };
    if !asked.get_all(header::ACCEPT).iter().any(accepts_problem) {
        return written(status, answer);
    }
    let problem = Refusal {
        r#type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
        title: "The request exceeds a limit",
        status: status.as_u16(),
        violated: violated(checks, replies),
    };
    let problem = json::write(&problem, FieldSet::ALL, 1);
    let mut response = written(status, json::join(problem, &answer));
    response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
    response
}

/// `policy.limit` of every limit that refused; the policy alone where a key is blocked.
fn violated(checks: &[Check<'_>], replies: &[Reply]) -> Vec<String> {
    let of_reply = |(check, reply): (&Check<'_>, &Reply)| {
        let name = check.policy.name().to_owned();
        let refused_by = reply.answer.decision.refused_by();
        let names: Vec<String> =
            reply.policy.names(refused_by).map(|limit| format!("{name}.{limit}")).collect();
        if names.is_empty() && reply.is_refusal() { vec![name] } else { names }
    };
    checks.iter().zip(replies).flat_map(of_reply).collect()
}

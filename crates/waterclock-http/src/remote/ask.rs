//! One question to the server, within the deadline, and what its reply means.

use std::sync::Arc;

use http::StatusCode;
use hyper_util::client::legacy::connect::Connect;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use waterclock::{Answer, Charge, Failure, Policy, StoreError, Verb};

use super::Inner;
use super::answer::{Said, SaidTogether};
use super::described::Described;
use super::no_answer::NoAnswer;
use super::question::{Call, calls};
use super::wire::Reply;

impl<C: Connect + Clone + Send + Sync + 'static> Inner<C> {
    /// Asks the server, unless it is left alone at the moment. `policies` are those of the charges.
    pub(super) async fn ask(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
        policies: &[Arc<Policy>],
    ) -> Result<Vec<Answer>, NoAnswer> {
        let calls = calls(verb, charges)?;
        // To decide needs less than to reset.
        let forgives = |failure| failure == Failure::Auth && verb == Verb::Reset;
        self.within(forgives, self.decide(calls, charges, policies)).await
    }

    /// Lets a question run, within the deadline, unless the server is left alone at the moment. What is
    /// forgiven is no reason to leave it alone.
    pub(super) async fn within<T>(
        &self,
        forgives: impl Fn(Failure) -> bool,
        asked: impl Future<Output = Result<T, NoAnswer>>,
    ) -> Result<T, NoAnswer> {
        let now = Instant::now();
        let Some(leave) = self.breaker.enter(now) else {
            let reason = format!("{} failed and is left alone for a moment", self.wire.base());
            return Err(StoreError::failed(Failure::Open, reason).into());
        };
        let by = now + self.deadline;
        let Ok(room) = timeout_at(by, self.room.acquire()).await else {
            let reason = format!("too many calls wait for {}", self.wire.base());
            return Err(StoreError::failed(Failure::Overloaded, reason).into());
        };
        let answers = timeout_at(by, asked).await.unwrap_or_else(|_| {
            let reason = format!("{} does not answer in {:?}", self.wire.base(), self.deadline);
            Err(StoreError::failed(Failure::Timeout, reason).into())
        });
        drop(room);
        match &answers {
            Ok(_) | Err(NoAnswer::Said(_)) => leave.succeeded(),
            Err(NoAnswer::Missing(error)) => match error.failure() {
                Some(failure) if forgives(failure) => leave.succeeded(),
                // Where nobody listens, nobody answers the next one either.
                Some(Failure::Unreachable) => leave.found_gone(Instant::now()),
                _ => leave.failed(Instant::now()),
            },
        }
        answers
    }

    async fn decide(
        &self,
        mut calls: Vec<Call>,
        charges: &[Charge<'_>],
        policies: &[Arc<Policy>],
    ) -> Result<Vec<Answer>, NoAnswer> {
        let last = calls.pop().ok_or_else(|| self.garbage("nothing was asked".to_owned()))?;
        for call in calls {
            let reply = self.wire.send(call).await?;
            if reply.status != StatusCode::OK {
                return Err(self.refused(&reply, charges));
            }
        }
        let reply = self.wire.send(last).await?;
        let is_decision = matches!(reply.status, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS);
        let read = if is_decision { read(&reply, charges, policies) } else { None };
        let read = read.ok_or_else(|| self.refused(&reply, charges))?;
        Ok(read.map_err(|reason| self.garbage(reason))?)
    }

    /// The policies that the server has.
    pub(super) async fn describe(&self) -> Result<Described, StoreError> {
        let reply = self.wire.send(Call::about_policies()).await?;
        match reply.status {
            StatusCode::OK => {
                let described = serde_json::from_slice(&reply.body);
                described.map_err(|_| self.stranger("something else"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(self.refused(&reply, &[]).into_error())
            }
            _ if said(&reply).is_some() && reply.status != StatusCode::NOT_FOUND => {
                Err(self.refused(&reply, &[]).into_error())
            }
            status => Err(self.stranger(&format!("status {}", status.as_u16()))),
        }
    }

    fn stranger(&self, answers: &str) -> StoreError {
        let reason = format!(
            "{} is not a waterclock server: it answers {answers} to GET /v1/policies",
            self.wire.base()
        );
        StoreError::failed(Failure::BadReply, reason)
    }

    pub(super) fn garbage(&self, reason: String) -> StoreError {
        let base = self.wire.base();
        StoreError::failed(Failure::BadReply, format!("{base} answers nonsense: {reason}"))
    }

    /// What a reply without a decision means.
    pub(super) fn refused(&self, reply: &Reply, charges: &[Charge<'_>]) -> NoAnswer {
        let (base, status) = (self.wire.base(), reply.status.as_u16());
        let problem = said(reply);
        let why = problem.as_ref().map_or("without a reason", |problem| &*problem.detail);
        let unfit = || StoreError::Unfit(format!("{base} does not decide: {why}")).into();
        match (reply.status, &problem) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                let reason = format!("{base} does not let us in ({status}): {why}");
                StoreError::failed(Failure::Auth, reason).into()
            }
            (StatusCode::TOO_MANY_REQUESTS, _) => {
                let reason = format!("{base} does not decide for us ({status}): {why}");
                StoreError::failed(Failure::Overloaded, reason).into()
            }
            // Its own store failed and its policy lets nobody pass then. To stand in would undo that.
            (StatusCode::SERVICE_UNAVAILABLE, Some(Problem { failure: Some(kind), .. })) => {
                let reason = format!("{base} lets nobody pass: {why}");
                NoAnswer::Said(StoreError::failed(kind_of(kind), reason))
            }
            // What is wrong is the question, and whoever stands in cannot know better.
            (StatusCode::NOT_FOUND, Some(_)) => match charges {
                [charge] => StoreError::UnknownPolicy(charge.policy.to_owned()).into(),
                _ => unfit(),
            },
            (StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE, Some(_)) => unfit(),
            _ => {
                let reason = format!("{base} answers {status}: {why}");
                StoreError::failed(Failure::BadReply, reason).into()
            }
        }
    }
}

/// The decisions in a reply, in the order of the charges. `None` where there are none.
pub(super) fn read(
    reply: &Reply,
    charges: &[Charge<'_>],
    policies: &[Arc<Policy>],
) -> Option<Result<Vec<Answer>, String>> {
    let said = match charges {
        [_] => serde_json::from_slice::<Said<'_>>(&reply.body).map(|said| vec![said]),
        _ => serde_json::from_slice::<SaidTogether<'_>>(&reply.body).map(|said| said.decisions),
    };
    let said = match said {
        Ok(said) => said,
        Err(_) if reply.status == StatusCode::TOO_MANY_REQUESTS => return None,
        Err(error) => return Some(Err(error.to_string())),
    };
    if said.len() != charges.len() {
        return Some(Err("there are not as many answers as charges".to_owned()));
    }
    let together = charges.iter().fold(0_u64, |sum, charge| sum.saturating_add(charge.cost.most()));
    let answers = said.into_iter().zip(charges).zip(policies);
    Some(answers.map(|((said, charge), policy)| said.answer(charge, together, policy)).collect())
}

/// Why a server does not decide.
#[derive(Deserialize)]
struct Problem {
    detail: String,
    /// How its own store failed, if that is why.
    failure: Option<String>,
}

fn said(reply: &Reply) -> Option<Problem> {
    serde_json::from_slice(&reply.body).ok()
}

/// A newer server may know kinds that are not known here.
fn kind_of(name: &str) -> Failure {
    let known = Failure::ALL.into_iter().find(|kind| kind.name() == name);
    known.unwrap_or(Failure::BadReply)
}

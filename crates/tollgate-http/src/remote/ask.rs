//! One question to the server, within the deadline, and what its reply means.

use std::sync::Arc;

use http::StatusCode;
use hyper_util::client::legacy::connect::Connect;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};
use tollgate::{Answer, Charge, Failure, Policy, StoreError, Verb};

use super::Inner;
use super::answer::{Said, SaidTogether};
use super::described::Described;
use super::question::{Call, calls};
use super::wire::Reply;

impl<C: Connect + Clone + Send + Sync + 'static> Inner<C> {
    /// Asks the server, unless it is left alone at the moment. `policies` are those of the charges.
    pub(super) async fn ask(
        &self,
        verb: Verb,
        charges: &[Charge<'_>],
        policies: &[Arc<Policy>],
    ) -> Result<Vec<Answer>, StoreError> {
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
        asked: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let now = Instant::now();
        let Some(leave) = self.breaker.enter(now) else {
            let reason = format!("{} failed and is left alone for a moment", self.wire.base());
            return Err(StoreError::failed(Failure::Open, reason));
        };
        let by = now + self.deadline;
        let Ok(room) = timeout_at(by, self.room.acquire()).await else {
            let reason = format!("too many calls wait for {}", self.wire.base());
            return Err(StoreError::failed(Failure::Overloaded, reason));
        };
        let answers = timeout_at(by, asked).await.unwrap_or_else(|_| {
            let reason = format!("{} does not answer in {:?}", self.wire.base(), self.deadline);
            Err(StoreError::failed(Failure::Timeout, reason))
        });
        drop(room);
        match answers.as_ref().err().and_then(StoreError::failure) {
            Some(failure) if forgives(failure) => leave.succeeded(),
            Some(_) => leave.failed(Instant::now()),
            None => leave.succeeded(),
        }
        answers
    }

    async fn decide(
        &self,
        mut calls: Vec<Call>,
        charges: &[Charge<'_>],
        policies: &[Arc<Policy>],
    ) -> Result<Vec<Answer>, StoreError> {
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
        read.ok_or_else(|| self.refused(&reply, charges))?.map_err(|reason| self.garbage(reason))
    }

    /// The policies that the server has.
    pub(super) async fn describe(&self) -> Result<Described, StoreError> {
        let reply = self.wire.send(Call::about_policies()).await?;
        match reply.status {
            StatusCode::OK => {
                let described = serde_json::from_slice(&reply.body);
                described.map_err(|_| self.stranger("something else"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.refused(&reply, &[])),
            _ if said(&reply).is_some() && reply.status != StatusCode::NOT_FOUND => {
                Err(self.refused(&reply, &[]))
            }
            status => Err(self.stranger(&format!("status {}", status.as_u16()))),
        }
    }

    fn stranger(&self, answers: &str) -> StoreError {
        let reason = format!(
            "{} is not a tollgate server: it answers {answers} to GET /v1/policies",
            self.wire.base()
        );
        StoreError::failed(Failure::BadReply, reason)
    }

    pub(super) fn garbage(&self, reason: String) -> StoreError {
        let base = self.wire.base();
        StoreError::failed(Failure::BadReply, format!("{base} answers nonsense: {reason}"))
    }

    /// What a reply without a decision means.
    pub(super) fn refused(&self, reply: &Reply, charges: &[Charge<'_>]) -> StoreError {
        let (base, status) = (self.wire.base(), reply.status.as_u16());
        let detail = said(reply);
        let why = detail.as_deref().unwrap_or("without a reason");
        match (reply.status, &detail) {
            (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) => {
                let reason = format!("{base} does not let us in ({status}): {why}");
                StoreError::failed(Failure::Auth, reason)
            }
            (StatusCode::TOO_MANY_REQUESTS, _) => {
                let reason = format!("{base} does not decide for us ({status}): {why}");
                StoreError::failed(Failure::Overloaded, reason)
            }
            // What is wrong is the question, and whoever stands in cannot know better.
            (StatusCode::NOT_FOUND, Some(detail)) => match charges {
                [charge] => StoreError::UnknownPolicy(charge.policy.to_owned()),
                _ => StoreError::Unfit(format!("{base} does not decide: {detail}")),
            },
            (StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE, Some(detail)) => {
                StoreError::Unfit(format!("{base} does not decide: {detail}"))
            }
            _ => StoreError::failed(Failure::BadReply, format!("{base} answers {status}: {why}")),
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
    let together = charges.iter().fold(0_u64, |sum, charge| sum.saturating_add(charge.cost));
    let answers = said.into_iter().zip(charges).zip(policies);
    Some(answers.map(|((said, charge), policy)| said.answer(charge, together, policy)).collect())
}

/// The sentence of a problem.
fn said(reply: &Reply) -> Option<String> {
    #[derive(Deserialize)]
    struct Problem {
        detail: String,
    }
    serde_json::from_slice(&reply.body).ok().map(|problem: Problem| problem.detail)
}

//! One connection of `bench`, in the protocol of its face; the one of HTTP is here.

use ::http::{Method, StatusCode};
use hyper::body::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use waterclock::Cost;
use waterclock_server::observe::Face;

use super::grpc::GrpcCaller;
use super::load::{Keys, Load};
use super::resp::RespCaller;
use crate::server::{Connection, NoAnswer, Response};

/// The decisions of one call, and the checks that the server could not decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) allowed: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    /// Allowed because no limit applies.
    pub(super) unlimited: u64,
}

/// A connection of one face.
pub(super) enum Caller {
    Http(HttpCaller),
    Grpc(GrpcCaller),
    Resp(RespCaller),
}

impl Caller {
    pub(super) async fn connect(load: &Load) -> Result<Caller, NoAnswer> {
        Ok(match load.server.address.face {
            Face::Http => Caller::Http(HttpCaller::connect(load).await?),
            Face::Grpc => Caller::Grpc(GrpcCaller::connect(load).await?),
            Face::Resp => Caller::Resp(RespCaller::connect(load).await?),
        })
    }

    /// Asks so many checks at once and waits for all answers.
    pub(super) async fn call(&mut self, keys: &mut Keys, many: u64) -> Result<Answers, NoAnswer> {
        match self {
            Caller::Http(caller) => caller.call(keys, many).await,
            Caller::Grpc(caller) => caller.call(keys).await,
            Caller::Resp(caller) => caller.call(keys, many).await,
        }
    }
}

pub(super) struct HttpCaller {
    connection: Connection,
    policy: String,
    cost: Option<Cost>,
}

/// The parts of a decision that are counted.
#[derive(Deserialize)]
struct Decision {
    allowed: bool,
    #[serde(default)]
    granted: Cost,
    #[serde(default)]
    refused_by: Vec<IgnoredAny>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Decisions {
    decisions: Vec<Decision>,
}

impl HttpCaller {
    async fn connect(load: &Load) -> Result<HttpCaller, NoAnswer> {
        let connection = Connection::open(&load.server).await?;
        Ok(HttpCaller { connection, policy: load.policy.clone(), cost: load.cost.clone() })
    }

    async fn call(&mut self, keys: &mut Keys, many: u64) -> Result<Answers, NoAnswer> {
        let mut check = || {
            let mut check = json!({ "policy": self.policy, "key": keys.next_name() });
            if let Some(cost) = &self.cost {
                check["cost"] = json!(cost);
            }
            check
        };
        let question = match many {
            1 => check(),
            _ => {
                let checks: Vec<_> = (0..many).map(|_| check()).collect();
                json!({ "checks": checks, "atomic": false })
            }
        };
        let body = Bytes::from(question.to_string());
        let response = self.connection.ask(Method::POST, "/v1/check", body).await?;
        read(&response, many).ok_or_else(|| NoAnswer::of(&response, "POST /v1/check"))
    }
}

fn read(response: &Response, many: u64) -> Option<Answers> {
    if !matches!(response.status, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let mut answers = Answers::default();
    if many == 1 {
        answers.count_decision(&serde_json::from_slice(&response.body).ok()?);
    } else {
        let read: Decisions = serde_json::from_slice(&response.body).ok()?;
        read.decisions.iter().for_each(|decision| answers.count_decision(decision));
    }
    Some(answers)
}

impl Answers {
    fn count_decision(&mut self, decision: &Decision) {
        // A partial grant is no refusal: then no limit is named, and something was granted.
        let in_part = decision.refused_by.is_empty() && !decision.granted.is_zero();
        match decision {
            Decision { error: Some(_), .. } => self.failed += 1,
            Decision { allowed: true, .. } => self.allowed += 1,
            _ if in_part => self.allowed += 1,
            _ => self.refused += 1,
        }
    }
}

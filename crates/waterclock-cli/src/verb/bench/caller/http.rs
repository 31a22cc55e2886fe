//! `POST /v1/check`.

use ::http::{Method, StatusCode};
use hyper::body::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use waterclock::Cost;

use super::Answers;
use crate::server::{Connection, NoAnswer, Said};
use crate::verb::bench::keys::Keys;
use crate::verb::bench::load::Load;

pub(in crate::verb::bench) struct HttpCaller {
    connection: Connection,
    policy: String,
    cost: Option<Cost>,
}

/// As much of a decision as is counted.
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
    pub(super) async fn connect(load: &Load) -> Result<HttpCaller, NoAnswer> {
        let connection = Connection::open(&load.server).await?;
        Ok(HttpCaller { connection, policy: load.policy.clone(), cost: load.cost.clone() })
    }

    pub(super) async fn call(&mut self, keys: &mut Keys, many: u64) -> Result<Answers, NoAnswer> {
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
        let said = self.connection.ask(Method::POST, "/v1/check", body).await?;
        read(&said, many).ok_or_else(|| NoAnswer::of(&said, "POST /v1/check"))
    }
}

fn read(said: &Said, many: u64) -> Option<Answers> {
    if !matches!(said.status, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let mut answers = Answers::default();
    if many == 1 {
        answers.count_decision(&serde_json::from_slice(&said.body).ok()?);
    } else {
        let read: Decisions = serde_json::from_slice(&said.body).ok()?;
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

//! A decision by a running server.

use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde_json::json;
use waterclock::Cost;

use super::answer::Told;
use crate::failure::{Failure, say};
use crate::server::{Connection, NoAnswer, Said, Server};
use crate::store::block_on;

/// One question to a server.
pub(super) struct Question<'a> {
    pub(super) policy: &'a str,
    pub(super) key: &'a str,
    pub(super) cost: Option<Cost>,
    pub(super) tier: Option<&'a str>,
}

/// What the server said: in its own words, and as we understand them.
pub(super) struct Answer {
    pub(super) json: String,
    pub(super) told: Told,
}

impl Question<'_> {
    pub(super) fn ask(&self, server: &Server) -> Result<Answer, Failure> {
        let asked = async {
            match self.send(server).await {
                Ok(answer) => Ok(answer),
                Err(no_answer) => Err(server.complaint(&no_answer).await),
            }
        };
        let answer = block_on(asked)??;
        if let Some(decided) = standing_in(&answer.told.source) {
            say(&format!("warning: {decided}, because the server's store does not answer"));
        }
        Ok(answer)
    }

    async fn send(&self, server: &Server) -> Result<Answer, NoAnswer> {
        let mut question = json!({ "policy": self.policy, "key": self.key });
        if let Some(cost) = &self.cost {
            question["cost"] = json!(cost);
        }
        if let Some(tier) = self.tier {
            question["tier"] = tier.into();
        }
        let mut connection = Connection::open(server).await?;
        let said =
            connection.ask(Method::POST, "/v1/check", Bytes::from(question.to_string())).await?;
        read(&said).ok_or_else(|| NoAnswer::of(&said, "POST /v1/check"))
    }
}

fn read(said: &Said) -> Option<Answer> {
    if !matches!(said.status, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let json = std::str::from_utf8(&said.body).ok()?.trim();
    let told: Told = serde_json::from_str(json).ok()?;
    Some(Answer { json: json.to_owned(), told: told.made_visible() })
}

/// Who has decided in the store's place.
fn standing_in(source: &str) -> Option<&'static str> {
    match source {
        "local" => Some("decided by the server's share of the limits"),
        _ => None,
    }
}

//! A decision by a running server.

use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde_json::json;

use super::answer::Told;
use crate::failure::{Failure, say};
use crate::server::{Connection, NoAnswer, Said, ServerAddress};
use crate::store::block_on;

/// One question to a server.
pub(super) struct Question<'a> {
    pub(super) policy: &'a str,
    pub(super) key: &'a str,
    pub(super) cost: u64,
    pub(super) tier: Option<&'a str>,
}

/// What the server said: in its own words, and as we understand them.
pub(super) struct Answer {
    pub(super) json: String,
    pub(super) told: Told,
}

impl Question<'_> {
    pub(super) fn ask(
        &self,
        address: &ServerAddress,
        token: Option<&str>,
    ) -> Result<Answer, Failure> {
        let failed = |no_answer: NoAnswer| Failure::from(format!("{address}: {no_answer}"));
        let said = block_on(self.send(address, token))?.map_err(failed)?;
        let answer = read(&said).ok_or_else(|| failed(NoAnswer::of(&said, "POST /v1/check")))?;
        if let Some(decided) = standing_in(&answer.told.source) {
            say(&format!("warning: {decided}, because the server's store does not answer"));
        }
        Ok(answer)
    }

    async fn send(&self, address: &ServerAddress, token: Option<&str>) -> Result<Said, NoAnswer> {
        let mut question = json!({ "policy": self.policy, "key": self.key, "cost": self.cost });
        if let Some(tier) = self.tier {
            question["tier"] = tier.into();
        }
        let mut connection = Connection::open(address, token).await?;
        connection.ask(Method::POST, "/v1/check", Bytes::from(question.to_string())).await
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

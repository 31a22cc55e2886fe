//! An answer as people read it, decided here or by a running server.

use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::json;
use waterclock::{Answer, Cost, Factor, Policy};
use waterclock_config::{Micros, micros_up};
use waterclock_rehearse::terminal::{BAD, GOOD, styled, visible};

use crate::output::{Failure, warn};
use crate::server::{Connection, NoAnswer, Response, Server};
use crate::verb::block_on;

/// The parts of a decision that a sentence needs.
#[derive(Deserialize)]
pub(super) struct Summary {
    allowed: bool,
    granted: Cost,
    remaining: Option<u64>,
    retry_after_us: Option<u64>,
    reset_after_us: u64,
    refused_by: Vec<String>,
    #[serde(default)]
    shadow_refused_by: Vec<String>,
    /// The source of the decision.
    #[serde(default)]
    pub(super) source: String,
}

impl Summary {
    pub(super) fn new(policy: &Policy, answer: &Answer) -> Summary {
        let decision = &answer.decision;
        let names = |set| policy.names(set).map(str::to_owned).collect();
        Summary {
            allowed: decision.is_allowed(),
            granted: Cost::from(decision.granted()),
            remaining: decision.remaining(),
            retry_after_us: decision.retry_after().map(micros_up),
            reset_after_us: micros_up(decision.reset_after()),
            refused_by: names(decision.refused_by()),
            shadow_refused_by: names(decision.shadow_refused_by()),
            source: answer.source.name().to_owned(),
        }
    }

    /// With invisible characters in names escaped.
    pub(super) fn made_visible(mut self) -> Summary {
        for name in self.refused_by.iter_mut().chain(&mut self.shadow_refused_by) {
            *name = visible(name);
        }
        self
    }

    /// A partial grant is not a refusal: no limit refused, and something was granted. A blocked key is refused by no
    /// limit either, but granted nothing.
    pub(super) fn is_refusal(&self) -> bool {
        !self.allowed && (!self.refused_by.is_empty() || self.granted.is_zero())
    }

    pub(super) fn sentence(&self) -> String {
        let good = |word| styled(GOOD, word);
        if self.allowed {
            let left =
                self.remaining.map_or_else(String::new, |remaining| format!("; {remaining} left"));
            let in_shadow = match &*self.shadow_refused_by {
                [] => String::new(),
                names => format!("; in shadow, {} would have refused", names.join(" and ")),
            };
            if self.source == "policy" {
                // The numbers are those of a fresh key.
                let why = "the key is exempt or unlimited, or the store does not answer";
                return format!(
                    "{} by the policy alone, not by the store: {why}{in_shadow}",
                    good("allowed")
                );
            }
            let fresh = Micros(self.reset_after_us).for_people();
            return format!("{}{left}; full again in {fresh}{in_shadow}", good("allowed"));
        }
        let retry = match self.retry_after_us {
            Some(wait) => format!("retry in {}", Micros(wait).for_people()),
            None => "it will never pass: the cost is above the limit".to_owned(),
        };
        if !self.is_refusal() {
            let granted = &self.granted;
            return format!(
                "{}: {granted} granted; for all of it, {retry}",
                good("allowed in part")
            );
        }
        let refused = styled(BAD, "refused");
        match &*self.refused_by {
            [] => format!("{refused}: the key is blocked"),
            names => format!("{refused} by {}; {retry}", names.join(" and ")),
        }
    }
}

/// One question to a server.
pub(super) struct Question<'a> {
    pub(super) policy: &'a str,
    pub(super) key: &'a str,
    pub(super) cost: Option<Cost>,
    pub(super) tier: Option<&'a str>,
    pub(super) factor: Option<Factor>,
}

/// The server's answer, unchanged and parsed.
pub(super) struct ServerAnswer {
    pub(super) json: String,
    pub(super) summary: Summary,
}

impl Question<'_> {
    pub(super) fn ask(&self, server: &Server) -> Result<ServerAnswer, Failure> {
        let asked = async {
            match self.send(server).await {
                Ok(answer) => Ok(answer),
                Err(no_answer) => Err(server.explain(&no_answer).await),
            }
        };
        let answer = block_on(asked)??;
        if let Some(decided) = fallback(&answer.summary.source) {
            warn(&format!("{decided}, because the server's store does not answer"));
        }
        Ok(answer)
    }

    async fn send(&self, server: &Server) -> Result<ServerAnswer, NoAnswer> {
        let mut question = json!({ "policy": self.policy, "key": self.key });
        if let Some(cost) = &self.cost {
            question["cost"] = json!(cost);
        }
        if let Some(tier) = self.tier {
            question["tier"] = tier.into();
        }
        if let Some(factor) = self.factor {
            question["factor"] = factor.to_string().into();
        }
        let mut connection = Connection::open(server).await?;
        let response =
            connection.ask(Method::POST, "/v1/check", Bytes::from(question.to_string())).await?;
        read(&response).ok_or_else(|| NoAnswer::of(&response, "POST /v1/check"))
    }
}

fn read(response: &Response) -> Option<ServerAnswer> {
    if !matches!(response.status, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let json = std::str::from_utf8(&response.body).ok()?.trim();
    let summary: Summary = serde_json::from_str(json).ok()?;
    Some(ServerAnswer { json: json.to_owned(), summary: summary.made_visible() })
}

/// What decided instead of the store.
fn fallback(source: &str) -> Option<&'static str> {
    match source {
        "local" => Some("decided by the server's share of the limits"),
        _ => None,
    }
}

//! The Redis protocol.

use std::time::Duration;

use waterclock_conformance::real::{Connection, Reply};

use super::http::missed;
use super::{Decision, Hold, Miss};
use crate::server::TOKEN;

pub(crate) struct Resp(Connection);

impl Resp {
    pub(super) fn connect(port: u16, patience: Duration) -> Result<Self, Miss> {
        let connection = Connection::open_within(port, patience).map_err(missed)?;
        let mut resp = Self(connection);
        resp.ask(&["AUTH", TOKEN])?;
        Ok(resp)
    }

    pub(super) fn check(&mut self, policy: &str, key: &str, cost: u64) -> Result<Decision, Miss> {
        decided(&self.ask(&["RL.CHECK", policy, key, &cost.to_string(), "JSON"])?)
    }

    pub(super) fn wait(
        &mut self,
        policy: &str,
        key: &str,
        within: Duration,
    ) -> Result<Decision, Miss> {
        let within = within.as_millis().to_string();
        decided(&self.ask(&["RL.WAIT", policy, key, "1", &within, "JSON"])?)
    }

    pub(super) fn reserve(&mut self, hold: Hold<'_>) -> Result<bool, Miss> {
        let (cost, ttl) = (hold.cost.to_string(), hold.ttl.as_millis().to_string());
        let mut command = vec!["RL.RESERVE", hold.policy, hold.key, &cost, &ttl, "ID", hold.id];
        if hold.release {
            command.push("RELEASE");
        }
        let reply = self.ask(&command)?;
        Ok(reply.as_array().last().is_some_and(|id| !id.is_nil()))
    }

    pub(super) fn settle(&mut self, id: &str, used: Option<u64>) -> Result<(), Miss> {
        match used {
            Some(cost) => self.ask(&["RL.COMMIT", id, &cost.to_string()])?,
            None => self.ask(&["RL.CANCEL", id])?,
        };
        Ok(())
    }

    fn ask(&mut self, command: &[&str]) -> Result<Reply, Miss> {
        match self.0.command(command).map_err(missed)? {
            Reply::Error(why) if why.contains("no reservation") => Err(Miss::Unknown),
            Reply::Error(why) => Err(Miss::Said(why)),
            reply => Ok(reply),
        }
    }
}

fn decided(reply: &Reply) -> Result<Decision, Miss> {
    let text = reply.as_text();
    let json = serde_json::from_str(&text).map_err(|error| Miss::Said(format!("{error}: {text}")));
    json.map(|json| Decision::of(&json))
}

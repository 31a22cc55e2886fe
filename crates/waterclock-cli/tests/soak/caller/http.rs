//! HTTP/1.1.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Decision, Hold, Miss};
use crate::server::TOKEN;

pub(crate) struct Http(TcpStream);

impl Http {
    pub(crate) fn connect(port: u16, patience: Duration) -> Result<Self, Miss> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(missed)?;
        stream.set_read_timeout(Some(patience)).map_err(missed)?;
        stream.set_nodelay(true).map_err(missed)?;
        Ok(Self(stream))
    }

    pub(super) fn check(&mut self, policy: &str, key: &str, cost: u64) -> Result<Decision, Miss> {
        let question = json!({"policy": policy, "key": key, "cost": cost});
        decided(self.ask("POST", "/v1/check", &question)?)
    }

    pub(super) fn wait(
        &mut self,
        policy: &str,
        key: &str,
        within: Duration,
    ) -> Result<Decision, Miss> {
        let within = format!("{}ms", within.as_millis());
        let question = json!({"policy": policy, "key": key, "within": within});
        decided(self.ask("POST", "/v1/wait", &question)?)
    }

    pub(super) fn reserve(&mut self, hold: Hold<'_>) -> Result<bool, Miss> {
        let question = json!({
            "policy": hold.policy, "key": hold.key, "cost": hold.cost, "id": hold.id,
            "ttl": format!("{}ms", hold.ttl.as_millis()),
            "on_expiry": if hold.release { "release" } else { "keep" },
        });
        match self.ask("POST", "/v1/reserve", &question)? {
            (200 | 201, _) => Ok(true),
            (429, _) => Ok(false),
            (status, body) => Err(Miss::Said(format!("{status} {body}"))),
        }
    }

    pub(super) fn settle(&mut self, id: &str, used: Option<u64>) -> Result<(), Miss> {
        let (status, body) = match used {
            Some(cost) => {
                let path = format!("/v1/reservations/{id}/commit");
                self.ask("POST", &path, &json!({ "cost": cost }))?
            }
            None => self.ask("DELETE", &format!("/v1/reservations/{id}"), &Value::Null)?,
        };
        match status {
            200 => Ok(()),
            404 => Err(Miss::Unknown),
            status => Err(Miss::Said(format!("{status} {body}"))),
        }
    }

    /// The status and the body, if that is JSON.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<(u16, Value), Miss> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {length}\r\n\r\n"
        );
        self.0.write_all((head + &body).as_bytes()).map_err(missed)?;
        let mut bytes = Vec::new();
        loop {
            if let Some(answer) = whole(&bytes) {
                return Ok(answer);
            }
            let mut more = [0; 16_384];
            match self.0.read(&mut more).map_err(missed)? {
                0 => return Err(Miss::Broken("the connection ended".to_owned())),
                length => bytes.extend(&more[..length]),
            }
        }
    }
}

fn decided((status, body): (u16, Value)) -> Result<Decision, Miss> {
    match status {
        200 | 429 => Ok(Decision::of(&body)),
        status => Err(Miss::Said(format!("{status} {body}"))),
    }
}

/// An answer, if all of it is there.
fn whole(bytes: &[u8]) -> Option<(u16, Value)> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(Some(0), |length| length.parse().ok())?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    (body.len() >= length).then(|| (status, serde_json::from_str(body).unwrap_or_default()))
}

pub(super) fn missed(error: std::io::Error) -> Miss {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Miss::Silent,
        _ => Miss::Broken(error.to_string()),
    }
}

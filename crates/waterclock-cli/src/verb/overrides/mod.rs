//! `waterclock override`: limits of single keys, on a running server.

mod import;
mod show;

use std::io::Write;
use std::process::ExitCode;

use http::{Method, StatusCode};
use hyper::body::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use waterclock_rehearse::terminal::visible;

use self::import::Import;
use self::show::{Get, List};
use super::block_on;
use crate::output::Failure;
use crate::server::{Access, Connection, NoAnswer, Response, Server, ServerAddress};

/// Set, show, list, load and clear limits of single keys on a running server.
///
/// The server's store keeps them: they survive restarts, and all servers of a Redis store share them. Reading needs a
/// token with the role read, if the server has tokens; changing needs the role admin. get --json and list --json print
/// JSON.
#[derive(clap::Args)]
pub(crate) struct Overrides {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Set(Set),
    Get(Get),
    List(List),
    Import(Import),
    Clear(Clear),
}

impl Overrides {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        match &self.action {
            Action::Set(set) => set.run(),
            Action::Get(get) => get.run(),
            Action::List(list) => list.run(),
            Action::Import(import) => import.run(),
            Action::Clear(clear) => clear.run(),
        }
    }
}

/// The server to ask.
#[derive(clap::Args)]
struct On {
    /// The server's HTTP address; https://… for TLS
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    #[command(flatten)]
    access: Access,
}

impl On {
    fn server(&self) -> Result<Server, Failure> {
        Server::new(ServerAddress::parse_http(&self.server)?, &self.access)
    }
}

/// Give a key its own limits, a factor or a tier; or block or exempt it.
///
/// It replaces the override that the key has. What the key has used stays used.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("rule").required(true).args(["limit", "block", "exempt", "factor", "tier"])))]
struct Set {
    /// The policy
    policy: String,
    /// The key
    key: String,
    /// A limit such as 100/s, or a table of the configuration as JSON; can be repeated
    #[arg(long, value_name = "LIMIT")]
    limit: Vec<String>,
    /// Refuse the key always
    #[arg(long)]
    block: bool,
    /// Never refuse the key, and count nothing
    #[arg(long)]
    exempt: bool,
    /// Scale the policy's limits: 0.5 doubles what is admitted, 2 halves it, 0 disables the limits
    #[arg(long, value_name = "DECIMAL", allow_negative_numbers = true)]
    factor: Option<String>,
    /// Apply the limits of this tier
    #[arg(long, value_name = "NAME")]
    tier: Option<String>,
    /// Clear it by itself after this time, such as 2d [default: it stays]
    #[arg(long, value_name = "TIME")]
    expires_in: Option<String>,
    #[command(flatten)]
    on: On,
}

impl Set {
    fn run(&self) -> Result<ExitCode, Failure> {
        let mut body = match (&self.factor, &self.tier) {
            (Some(factor), _) => json!({ "factor": factor }),
            (_, Some(tier)) => json!({ "tier": tier }),
            _ if self.block => json!({ "block": true }),
            _ if self.exempt => json!({ "exempt": true }),
            _ => {
                let limits: Result<Vec<Value>, Failure> =
                    self.limit.iter().map(|limit| read_limit(limit)).collect();
                json!({ "limits": limits? })
            }
        };
        if let Some(expires_in) = &self.expires_in {
            body["expires_in"] = expires_in.as_str().into();
        }
        let server = self.on.server()?;
        let path = override_path(&self.policy, &self.key)?;
        ask(&server, Method::PUT, &path, body.to_string(), &[StatusCode::OK])?;
        let (policy, key) = (visible(&self.policy), visible(&self.key));
        writeln!(anstream::stdout(), "{policy}: {key} has an override now")?;
        Ok(ExitCode::SUCCESS)
    }
}

fn read_limit(text: &str) -> Result<Value, Failure> {
    if !text.trim_start().starts_with('{') {
        return Ok(text.into());
    }
    serde_json::from_str(text).map_err(|error| format!("--limit: {error}").into())
}

/// Clear the override of a key: exit code 0 cleared, 1 there was none.
///
/// The policy's limits apply again. What the key has used stays used.
#[derive(clap::Args)]
struct Clear {
    /// The policy
    policy: String,
    /// The key
    key: String,
    #[command(flatten)]
    on: On,
}

impl Clear {
    fn run(&self) -> Result<ExitCode, Failure> {
        let line = json!({ "key": self.key, "clear": true }).to_string();
        let loaded = import::send(&self.on.server()?, &self.policy, line)?;
        if let Some(error) = loaded.errors.first() {
            return Err(visible(&error.detail).into());
        }
        let (policy, key) = (visible(&self.policy), visible(&self.key));
        let (said, code) = match loaded.cleared {
            0 => ("had no override", ExitCode::from(1)),
            _ => ("has no override any more", ExitCode::SUCCESS),
        };
        writeln!(anstream::stdout(), "{policy}: {key} {said}")?;
        Ok(code)
    }
}

fn policy_path(policy: &str) -> String {
    format!("/v1/policies/{}", utf8_percent_encode(policy, NON_ALPHANUMERIC))
}

fn override_path(policy: &str, key: &str) -> Result<String, Failure> {
    if key.is_empty() {
        let hint = "the empty key has no path; use `waterclock override import` for it";
        return Err(hint.into());
    }
    let key = utf8_percent_encode(key, NON_ALPHANUMERIC);
    Ok(format!("{}/keys/{key}/override", policy_path(policy)))
}

/// A response with one of these statuses.
fn ask(
    server: &Server,
    method: Method,
    path: &str,
    body: String,
    answers: &[StatusCode],
) -> Result<Response, Failure> {
    let asked = async {
        let question = format!("{method} {path}");
        let answer: Result<Response, NoAnswer> = async {
            let mut connection = Connection::open(server).await?;
            let response = connection.ask(method, path, Bytes::from(body)).await?;
            match answers.contains(&response.status) {
                true => Ok(response),
                false => Err(NoAnswer::of(&response, &question)),
            }
        }
        .await;
        match answer {
            Ok(response) => Ok(response),
            Err(no_answer) => Err(server.explain(&no_answer).await),
        }
    };
    Ok(block_on(asked)??)
}

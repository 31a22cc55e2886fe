//! `waterclock policy`: policies that a running server is given, and keeps for all servers of its store.

use std::io::{Read, Write};
use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use waterclock_config::english::in_short;
use waterclock_config::{LimitFields, cannot_read};
use waterclock_rehearse::terminal::visible;

use super::ask::{ask, read};
use crate::output::Failure;
use crate::server::{Access, Server, ServerAddress};

/// The longest policy that is sent, in bytes.
const LONGEST: u64 = 64 * 1_024;

/// Set, show, list or delete policies of a running server, which keeps them in its store.
///
/// waterclock policy set NAME FILE, get NAME, list, delete NAME. FILE has the policy as JSON, as the configuration file
/// has it: {"limits": ["5/m"]}; - is standard input. A policy that is replaced keeps what was spent. A policy of the
/// server's configuration file wins over one of the same name. To set and delete needs a token with the role admin.
#[derive(clap::Args)]
pub(crate) struct Policy {
    /// What to do
    action: Action,
    /// The policy's name
    name: Option<String>,
    /// The policy to set, as JSON; - for standard input
    file: Option<String>,
    /// The server's HTTP address; https://… for TLS
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    #[command(flatten)]
    access: Access,
    /// Print what the server answers, as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Action {
    Set,
    Get,
    List,
    Delete,
}

impl Policy {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let (name, file) = (self.name.as_deref(), self.file.as_deref());
        let (method, path, body) = match (self.action, name, file) {
            (Action::Set, Some(name), Some(file)) => (Method::PUT, path(name), text_of(file)?),
            (Action::Get, Some(name), None) => (Method::GET, path(name), String::new()),
            (Action::List, None, None) => (Method::GET, "/v1/policies".to_owned(), String::new()),
            (Action::Delete, Some(name), None) => (Method::DELETE, path(name), String::new()),
            (Action::Set, ..) => return Err(usage("set NAME FILE")),
            (Action::Get, ..) => return Err(usage("get NAME")),
            (Action::List, ..) => return Err(usage("list")),
            (Action::Delete, ..) => return Err(usage("delete NAME")),
        };
        let server = Server::new(ServerAddress::parse_http(&self.server)?, &self.access)?;
        let answer = ask(&server, method, &path, body.into())?;
        let mut out = std::io::stdout().lock();
        if self.json || matches!(self.action, Action::Get) {
            writeln!(out, "{}", answer.trim())?;
        } else if matches!(self.action, Action::List) {
            rows(&read(&answer)?).iter().try_for_each(|row| writeln!(out, "{row}"))?;
        } else {
            let answer: Value = read(&answer)?;
            let result = answer["result"].as_str().unwrap_or("changed");
            writeln!(out, "policy {} is {}", visible(name.unwrap_or_default()), visible(result))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn usage(form: &str) -> Failure {
    format!("the form is: waterclock policy {form}").into()
}

fn path(name: &str) -> String {
    format!("/v1/policies/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

/// The text of a file, or of standard input.
fn text_of(file: &str) -> Result<String, Failure> {
    let (mut text, name) = (String::new(), if file == "-" { "standard input" } else { file });
    let done = match file {
        "-" => std::io::stdin().lock().take(LONGEST + 1).read_to_string(&mut text),
        _ => std::fs::File::open(file)
            .and_then(|opened| opened.take(LONGEST + 1).read_to_string(&mut text)),
    };
    done.map_err(|error| cannot_read(name, &error))?;
    if text.len() as u64 > LONGEST {
        return Err(format!("{name}: is longer than {LONGEST} bytes").into());
    }
    Ok(text)
}

fn rows(answer: &Value) -> Vec<String> {
    let text = |value: &Value| visible(value.as_str().unwrap_or("-"));
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header(["POLICY", "FROM", "MODE", "LIMITS"]);
    for policy in answer["policies"].as_array().into_iter().flatten() {
        let limits = policy["limits"].as_array().into_iter().flatten();
        let limits: Vec<String> = limits.map(in_words).collect();
        table.add_row([
            text(&policy["name"]),
            text(&policy["origin"]),
            text(&policy["mode"]),
            limits.join(", "),
        ]);
    }
    table.to_string().lines().map(|line| line.trim_end().to_owned()).collect()
}

fn in_words(limit: &Value) -> String {
    let fields = serde_json::from_value::<LimitFields>(limit.clone()).ok();
    match fields.and_then(|fields| fields.limit().ok()) {
        Some(limit) => in_short(&limit),
        None => "?".to_owned(),
    }
}

//! `waterclock keys`: how many keys a server has in memory, and how to forget those of a policy.

use std::io::Write;
use std::process::ExitCode;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use http::Method;
use hyper::body::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use waterclock_rehearse::terminal::{grouped, visible};

use super::ask::{ask, read};
use crate::output::Failure;
use crate::server::{Access, Server, ServerAddress};

/// Show how many keys each policy has in a server's memory, and what it is guaranteed.
///
/// --purge forgets all keys of one policy: they start fresh. It needs a token with the role admin. The keys of
/// CL.THROTTLE are those of the policy @throttle.
#[derive(clap::Args)]
pub(crate) struct Keys {
    /// The server's HTTP address; https://… for TLS
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Forget every key of this policy
    #[arg(long, value_name = "POLICY")]
    purge: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Print what the server answers, as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Usage {
    keys: u64,
    max_keys: u64,
    log_bytes: u64,
    max_bytes: u64,
    evicted: u64,
    overflowed: u64,
    coarsened: u64,
    policies: Vec<OfPolicy>,
}

#[derive(Deserialize)]
struct OfPolicy {
    name: String,
    keys: u64,
    guaranteed_keys: u64,
    log_bytes: u64,
    guaranteed_log_bytes: u64,
    on_full: String,
}

#[derive(Deserialize)]
struct Purged {
    policy: String,
    purged: u64,
}

impl Keys {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let server = Server::new(ServerAddress::parse_http(&self.url)?, &self.access)?;
        let (method, path) = match &self.purge {
            None => (Method::GET, "/v1/keys".to_owned()),
            Some(policy) => {
                let policy = utf8_percent_encode(policy, NON_ALPHANUMERIC);
                (Method::DELETE, format!("/v1/policies/{policy}/keys"))
            }
        };
        let body = ask(&server, method, &path, Bytes::new())?;
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", body.trim())?;
        } else if self.purge.is_some() {
            let Purged { policy, purged } = read(&body)?;
            writeln!(out, "{} keys of {} start fresh", grouped(purged), visible(&policy))?;
        } else {
            lines(&read(&body)?).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn lines(usage: &Usage) -> Vec<String> {
    let of = |used, most| format!("{} of {}", grouped(used), grouped(most));
    let mut lines = vec![
        format!("keys       {}", of(usage.keys, usage.max_keys)),
        format!("log bytes  {}", of(usage.log_bytes, usage.max_bytes)),
    ];
    let events = [
        (usage.evicted, "keys were forgotten for others"),
        (usage.overflowed, "charges of keys found no place"),
        (usage.coarsened, "times logs became coarser"),
    ];
    let happened = events.iter().filter(|(times, _)| *times > 0);
    lines.extend(happened.map(|(times, what)| format!("{} {what}", grouped(*times))));
    lines.push(String::new());
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header(["POLICY", "KEYS", "GUARANTEED", "LOG BYTES", "GUARANTEED", "WHEN FULL"]);
    for policy in &usage.policies {
        table.add_row([
            visible(&policy.name),
            grouped(policy.keys),
            grouped(policy.guaranteed_keys),
            grouped(policy.log_bytes),
            grouped(policy.guaranteed_log_bytes),
            policy.on_full.clone(),
        ]);
    }
    table.column_iter_mut().skip(1).take(4).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    lines.extend(table.to_string().lines().map(|line| line.trim_end().to_owned()));
    lines
}

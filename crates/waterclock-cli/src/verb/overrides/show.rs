//! `override get` and `override list`.

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use http::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use waterclock_config::Micros;
use waterclock_rehearse::terminal::visible;

use super::{On, ask, override_path, policy_path};
use crate::output::Failure;

/// Overrides that are asked for at once.
const PAGE: usize = 1_000;

/// Show the override of a key: exit code 0 there is one, 1 there is none.
#[derive(clap::Args)]
pub(super) struct Get {
    /// The policy
    policy: String,
    /// The key
    key: String,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    on: On,
}

impl Get {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let path = override_path(&self.policy, &self.key)?;
        let statuses = [StatusCode::OK, StatusCode::NOT_FOUND];
        let response = ask(&self.on.server()?, Method::GET, &path, String::new(), &statuses)?;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        let mut out = anstream::stdout();
        if response.status == StatusCode::NOT_FOUND {
            let detail = read::<Value>(&text)?["detail"].as_str().unwrap_or_default().to_owned();
            // A policy that is not there is an error.
            if !detail.contains("no override") {
                return Err(visible(&detail).into());
            }
            match self.json {
                true => writeln!(out, "null")?,
                false => writeln!(out, "{} has no override", visible(&self.key))?,
            }
            return Ok(ExitCode::from(1));
        }
        match self.json {
            true => writeln!(std::io::stdout(), "{}", text.trim())?,
            false => {
                let [rule, expiry] = shown(&read(&text)?);
                writeln!(out, "{rule}{}{expiry}", if expiry.is_empty() { "" } else { ", for " })?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// List all overrides of a policy.
///
/// --json prints one object on a line, as waterclock override import reads them.
#[derive(clap::Args)]
pub(super) struct List {
    /// The policy
    policy: String,
    /// Print a line of JSON for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    on: On,
}

#[derive(Deserialize)]
struct Page {
    /// As the server writes them: numbers keep their digits.
    overrides: Vec<Box<RawValue>>,
    next: Option<String>,
}

impl List {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let server = self.on.server()?;
        let mut out = BufWriter::new(std::io::stdout().lock());
        let (mut after, mut is_first) = (None::<String>, true);
        loop {
            let mut path = format!("{}/overrides?count={PAGE}", policy_path(&self.policy));
            if let Some(after) = &after {
                path += &format!("&after={}", utf8_percent_encode(after, NON_ALPHANUMERIC));
            }
            let response = ask(&server, Method::GET, &path, String::new(), &[StatusCode::OK])?;
            let page: Page = read(&String::from_utf8_lossy(&response.body))?;
            if self.json {
                page.overrides.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            } else if is_first && page.overrides.is_empty() && page.next.is_none() {
                writeln!(out, "{} has no overrides", visible(&self.policy))?;
            } else {
                self::lines(&page, is_first)?
                    .iter()
                    .try_for_each(|line| writeln!(out, "{line}"))?;
            }
            // The reader sees each page as it arrives.
            out.flush()?;
            // A page that leads to itself would never end.
            if page.next.is_none() || page.next == after {
                return Ok(ExitCode::SUCCESS);
            }
            (after, is_first) = (page.next, false);
        }
    }
}

fn lines(page: &Page, has_header: bool) -> Result<Vec<String>, Failure> {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    if has_header {
        table.set_header(["KEY", "OVERRIDE", "EXPIRES IN"]);
    }
    for line in &page.overrides {
        let line: Map<String, Value> = read(line.get())?;
        let key = match (&line.get("key"), &line.get("key_hex")) {
            (Some(key), _) => visible(key.as_str().unwrap_or_default()),
            (None, hex) => {
                format!("0x{}", visible(hex.and_then(Value::as_str).unwrap_or_default()))
            }
        };
        let [rule, expiry] = shown(&line);
        table.add_row([key, rule, expiry]);
    }
    Ok(table.to_string().lines().map(|line| line.trim_end().to_owned()).collect())
}

/// The rule, and the time that is left, for people.
fn shown(line: &Map<String, Value>) -> [String; 2] {
    let text = |name: &str| line.get(name).map(|value| visible(&plain(value)));
    let rule = if let Some(limits) = line.get("limits").and_then(Value::as_array) {
        limits.iter().map(limit_shown).collect::<Vec<_>>().join(" and ")
    } else if let Some(factor) = text("factor") {
        format!("factor {factor}")
    } else if let Some(tier) = text("tier") {
        format!("tier {tier}")
    } else if line.contains_key("block") {
        "block".to_owned()
    } else {
        "exempt".to_owned()
    };
    let left = line.get("expires_in_us").and_then(Value::as_u64);
    [rule, left.map_or_else(String::new, |left| Micros(left).for_people())]
}

/// A limit by its fields: `gcra limit 100 per 1s`.
fn limit_shown(limit: &Value) -> String {
    let Some(fields) = limit.as_object() else { return visible(&plain(limit)) };
    let algorithm = fields.get("algorithm").map(plain).unwrap_or_default();
    let is_shown = |name: &&String| {
        *name != "algorithm" && !(*name == "name" && fields[*name] == algorithm.as_str())
    };
    let in_order = ["name", "limit", "capacity", "drip", "per", "every", "unit"].map(str::to_owned);
    let first = in_order.iter().filter(|name| fields.contains_key(*name));
    let others = fields.keys().filter(|name| !in_order.contains(name));
    let fields = first
        .chain(others)
        .filter(is_shown)
        .map(|name| format!(" {name} {}", plain(&fields[name])));
    visible(&format!("{algorithm}{}", fields.collect::<String>()))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn read<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text)
        .map_err(|error| format!("the server's answer cannot be read: {error}").into())
}

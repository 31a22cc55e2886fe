//! express-rate-limit: options of its middleware.

use serde_json::Value;

use super::names::Names;
use super::notes::Notes;
use super::options::{self, Options};
use super::source::Source;
use super::toml::{Translation, line, policy};
use crate::output::Failure;

const ABOUT: &[&str] = &[
    "A key's window starts with its first request, as in express-rate-limit. `gcra` and `rolling-window` do not admit",
    "twice as much around the edge of two windows.",
];

/// Milliseconds.
const MS: u32 = 1_000;
/// What the middleware takes if an option is not given.
const WINDOW: &str = "1m";
const LIMIT: u64 = 5;

pub(super) fn translate(sources: &[Source]) -> Result<Translation, Failure> {
    let (mut notes, mut names, mut tables) = (Notes::default(), Names::default(), String::new());
    for source in sources {
        for options in options::read(source)? {
            let identifier = options.text("identifier").filter(|name| !name.is_empty());
            let given = options.name.as_deref().or(identifier).unwrap_or("express");
            let name = names.of_limiter(given, &mut notes);
            say_rest(&options, &name, &mut notes);
            let limit = match options.units("limit")? {
                Some(limit) => limit,
                None => options.units("max")?.unwrap_or(LIMIT),
            };
            if limit == 0 {
                notes.add(&name, "`limit` 0 refuses everything; it is left out, because a limit is at least 1: refuse such requests before they are checked");
                continue;
            }
            let window = options.time("windowMs", MS)?;
            if window.is_some_and(|window| window.0 == 0) {
                return Err(options.wrong("windowMs", "must be more than 0"));
            }
            let per = window.map_or_else(|| WINDOW.to_owned(), |window| window.to_string());
            let headers = headers(&options, &name, &mut notes)?;
            policy(&mut tables, &name, &source.name);
            line(
                &mut tables,
                &format!(
                    "limits = [{{ algorithm = \"fixed-window\", limit = {limit}, per = \"{per}\" }}]"
                ),
            );
            line(&mut tables, &format!("headers = \"{headers}\""));
            if let Some(passes) = options.flag("passOnStoreError")? {
                let on_store_error = if passes { "allow" } else { "deny" };
                line(&mut tables, &format!("on_store_error = \"{on_store_error}\""));
            }
        }
    }
    Ok(Translation { about: ABOUT, notes: notes.into_notes(), tables })
}

/// The style whose header fields are nearest to those that are asked for.
fn headers(options: &Options, name: &str, notes: &mut Notes) -> Result<&'static str, Failure> {
    let legacy = match options.get("legacyHeaders") {
        None => options.flag("headers")?.unwrap_or(true),
        Some(_) => options.flag("legacyHeaders")?.unwrap_or(true),
    };
    let standard = match options.get("standardHeaders") {
        None | Some(Value::Bool(false)) => None,
        Some(Value::Bool(true)) => Some("draft-6"),
        Some(Value::String(draft)) => Some(draft.as_str()),
        Some(_) => {
            let rest = "must be true, false or the name of a draft";
            return Err(options.wrong("standardHeaders", rest));
        }
    };
    let Some(draft) = standard else {
        return Ok(if legacy { "github" } else { "retry-after" });
    };
    if draft != "draft-8" {
        notes.add(name, format!("`standardHeaders` {draft:?} has no counterpart: `headers = \"ietf\"` writes `RateLimit` and `RateLimit-Policy` as newer drafts do"));
    }
    if legacy {
        notes.add(name, "`legacyHeaders` beside `standardHeaders` is left out: a policy has one style; here it is `ietf`");
    }
    Ok("ietf")
}

/// What each other option is here.
fn say_rest(options: &Options, name: &str, notes: &mut Notes) {
    for (option, value) in &options.fields {
        let is_off = value.is_null() || *value == false;
        let instead = match option.as_str() {
            "windowMs" | "limit" | "standardHeaders" | "legacyHeaders" | "headers"
            | "passOnStoreError" => continue,
            "max" if options.get("limit").is_none() => continue,
            "identifier" if options.name.is_none() => continue,
            _ if is_off => continue,
            "max" => "is left out: `limit` beside it is the newer name",
            "identifier" => {
                "is left out: header fields call a limit by the names of its policy and its own"
            }
            "skipFailedRequests" | "skipSuccessfulRequests" | "requestWasSuccessful" => {
                "stays in your program: refund the cost after such a response"
            }
            "skip" => "stays in your program: skip the check, or list keys under `exempt`",
            "keyGenerator" | "ipv6Subnet" => "stays in your program: pass the key with each check",
            "message" | "statusCode" | "handler" | "requestPropertyName" | "retryAfter" => {
                "stays in your program, which writes the response to a refusal"
            }
            "store" => "is a setting of the server: `[store] url` says where state lives",
            "validate" | "logger" => {
                "is not needed: `waterclock validate` checks the configuration, and the server has its own log"
            }
            _ => "has no counterpart and is left out",
        };
        notes.add(name, format!("`{option}` {instead}"));
    }
}

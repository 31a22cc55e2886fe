//! `waterclock import`: the configuration of Envoy's reference rate limit service, as `waterclock.toml`.

mod rules;
mod tree;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use waterclock_config::Pattern;

use self::rules::{Effect, Imported, Imports};
use crate::output::Failure;

/// Turn YAML files of Envoy's reference rate limit service into a waterclock.toml on standard output.
///
/// Every limit becomes a policy with a window aligned to the clock, as that service counts, and a rule
/// that sends it the same descriptors. Comments say what has no counterpart.
#[derive(clap::Args)]
pub(crate) struct Import {
    /// The YAML files; files of the same domain are merged
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON: the file as `toml`, and what has no counterpart as `warnings`
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let mut domains = Vec::new();
        for file in &self.files {
            domains.extend(tree::read(file)?);
        }
        let domains = tree::grow(domains)?;
        let imported = rules::of(&domains)?;
        let names: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        let mut out = std::io::stdout().lock();
        let text = to_toml(&names, &imported);
        if self.json {
            writeln!(out, "{}", json!({ "toml": text, "warnings": imported.notes }))?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The whole file.
fn to_toml(files: &[String], imported: &Imported) -> String {
    let mut out = String::new();
    let from: Vec<String> = files.iter().map(|file| one_line(file)).collect();
    line(&mut out, &format!("# Imported from {}.", from.join(", ")));
    line(&mut out, "#");
    line(
        &mut out,
        "# Windows are aligned to the clock, and every descriptor is counted alone, refused or not, as Envoy's",
    );
    line(
        &mut out,
        "# reference rate limit service does. Without `mode` and `charge`, refused requests cost nothing; `gcra` and",
    );
    line(&mut out, "# `rolling-window` do not admit twice as much around the edge of two windows.");
    for note in &imported.notes {
        line(&mut out, &format!("# {}.", one_line(note)));
    }
    for rule in &imported.rules {
        policy(&mut out, rule);
    }
    for rule in &imported.rules {
        self::rule(&mut out, rule);
    }
    out
}

fn policy(out: &mut String, rule: &Imports) {
    let Effect::Policy { name, requests, per, shadow } = &rule.effect else { return };
    line(out, "");
    line(out, &format!("[policies.{name}] # {}", one_line(&rule.place)));
    line(
        out,
        &format!(
            "limits = [{{ algorithm = \"fixed-window\", limit = {requests}, per = \"{per}\", align = \"epoch\" }}]"
        ),
    );
    line(out, "mode = \"uniform\"");
    line(out, "headers = \"none\"");
    if *shadow {
        line(out, "shadow = true");
    }
}

fn rule(out: &mut String, rule: &Imports) {
    line(out, "");
    if matches!(rule.effect, Effect::Barrier) {
        let place = one_line(&rule.place);
        line(out, &format!("# The descriptor at {place} keeps these from less specific rules."));
    }
    line(out, "[[rules]]");
    line(out, &format!("domain = {}", quoted(&rule.domain)));
    let entries: Vec<String> = rule.entries.iter().map(entry).collect();
    line(out, &format!("descriptor = [{}]", entries.join(", ")));
    if let Some(key) = &rule.key {
        line(out, &format!("key = [{}]", list(key)));
    }
    line(
        out,
        &match &rule.effect {
            Effect::Unlimited | Effect::Barrier => "unlimited = true".to_owned(),
            Effect::Refuse => "refuse = true".to_owned(),
            Effect::Policy { name, .. } => format!("policy = \"{name}\"\ncharge = \"count\""),
        },
    );
    if let Some(name) = &rule.name {
        line(out, &format!("name = {}", quoted(name)));
    }
    if !rule.replaces.is_empty() {
        line(out, &format!("replaces = [{}]", list(&rule.replaces)));
    }
}

fn entry((key, value): &(String, Pattern)) -> String {
    let key = quoted(key);
    match value {
        Pattern::Any => format!("{{ key = {key} }}"),
        Pattern::Exact(value) => format!("{{ key = {key}, value = {} }}", quoted(value)),
        Pattern::Prefix(prefix) => {
            format!("{{ key = {key}, value = {} }}", quoted(&format!("{prefix}*")))
        }
    }
}

fn list(texts: &[String]) -> String {
    texts.iter().map(|text| quoted(text)).collect::<Vec<String>>().join(", ")
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            // Writing to a string does not fail.
            letter if letter.is_control() => _ = write!(out, "\\u{:04X}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// A comment ends with its line.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

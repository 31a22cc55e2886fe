//! From options and the first line to a log that can be read.

use serde_json::json;
use waterclock_config::{PolicyConfig, cannot_read};

use super::ahead::ReadAhead;
use super::beside::{OldDecision, RequestFields};
use super::combined::{self, CombinedNames};
use super::csv::Csv;
use super::instant::{Instants, TimeUnit};
use super::json::Json;
use super::order::{Order, Spread};
use super::plan::{Plan, Price};
use super::{Log, LogFormat, Tally};
use crate::expr::{Expression, Kind, Names, Part};
use crate::trace::lines::{Input, Lines};
use crate::trace::{Format, Reading};
use crate::{Error, Note};

/// Fields that hold the time, the likeliest first.
pub(super) const TIMES: [&str; 6] = ["t_us", "time", "timestamp", "ts", "@timestamp", "date"];

/// Fields that hold the address of the client, the likeliest first.
const ADDRESSES: [&str; 5] = ["client_ip", "remote_addr", "remote_ip", "clientip", "ip"];

impl Reading {
    /// Opens a log for policies; none if it has no lines.
    pub(in crate::trace) fn open_log(
        &self,
        kind: Format,
        input: Input,
        policies: &[&PolicyConfig],
        counted_by: &[&PolicyConfig],
    ) -> Result<Option<ReadAhead>, Error> {
        self.log(kind, input, policies, counted_by)?.map(ReadAhead::start).transpose()
    }

    /// The same, to be read by the caller.
    pub(super) fn log(
        &self,
        kind: Format,
        input: Input,
        policies: &[&PolicyConfig],
        counted_by: &[&PolicyConfig],
    ) -> Result<Option<Log>, Error> {
        let mut lines = Lines::new(input);
        let is_there = lines.advance();
        if !is_there.map_err(|error| cannot_read(lines.name(), &error))? {
            return Ok(None);
        }
        let first = lines.text().map(|text| text.into_owned()).unwrap_or_default();
        let mut tally = Tally::default();
        let mut plan =
            |names: &mut dyn Names| self.plan(kind, names, policies, counted_by, &mut tally);
        let (format, plan) = match kind {
            Format::Csv => {
                let place = format!("{}:{}", lines.name(), lines.number);
                let delimiter = self.delimiter.unwrap_or(b',');
                let mut csv =
                    Csv::new(first.as_bytes(), delimiter, !self.no_header).map_err(|_| {
                        format!("{place}: the names of the columns must be on one line; a quote is not closed")
                    })?;
                let plan = plan(&mut csv)?;
                (LogFormat::Csv(csv), plan)
            }
            Format::Jsonl => {
                let mut json = Json::new(first);
                let plan = plan(&mut json)?;
                (LogFormat::Json(json), plan)
            }
            Format::Combined | Format::Trace => (LogFormat::Combined, plan(&mut CombinedNames)?),
        };
        if kind != Format::Csv || self.no_header {
            lines.keep();
        }
        Ok(Some(Log {
            lines,
            format,
            plan,
            order: Order::new(self.reorder),
            spread: self.spread.then(Spread::default),
            tally,
            is_strict: self.strict,
            is_end: false,
            error: None,
            spare: Vec::new(),
        }))
    }

    fn plan(
        &self,
        kind: Format,
        names: &mut dyn Names,
        policies: &[&PolicyConfig],
        counted_by: &[&PolicyConfig],
        tally: &mut Tally,
    ) -> Result<Plan, Error> {
        let mut read = |flag, text: Option<&str>, wanted| {
            text.map(|text| Expression::parse(flag, text, names, wanted)).transpose()
        };
        let condition = read("--where", self.condition.as_deref(), Kind::Truth)?;
        let key = read("--key", self.key.as_deref(), Kind::Text)?;
        let tier = read("--tier", self.tier.as_deref(), Kind::Text)?;
        let cost = Price::read(&self.cost, names, counted_by)?;
        // One key for all policies, or each its own.
        let (key, other_keys) = match (key, policies) {
            (Some(key), _) => (key, Vec::new()),
            (None, []) => return Err("a log is read for a policy".into()),
            (None, [first, others @ ..]) => {
                let mut of = |policy: &&PolicyConfig| self.default_key(kind, names, policy, tally);
                (of(first)?, others.iter().map(of).collect::<Result<_, _>>()?)
            }
        };
        let times = self.times(kind, names)?;
        let request = RequestFields::find(names, self.reads_requests);
        let old = self.old.as_ref().map(|old| OldDecision::read(old, names)).transpose()?;
        let instants = Instants::default();
        let scopes = counted_by.iter().map(|policy| policy.scope.clone()).collect();
        let tier = tier.map(|tier| (tier, scopes));
        Ok(Plan {
            condition,
            times,
            key,
            other_keys,
            cost,
            tier,
            request,
            old,
            instants,
            has_found_time: false,
        })
    }

    fn times(&self, kind: Format, names: &mut dyn Names) -> Result<Vec<(usize, TimeUnit)>, Error> {
        let mut find = |name: &str| {
            let unit = self.time_unit.unwrap_or_default().of_field(name);
            names.find(name).map(|(place, _)| (place, unit))
        };
        match (&self.time, kind) {
            (Some(name), _) => {
                let found = find(name).map_err(|sentence| format!("--time: {sentence}"))?;
                Ok(vec![found])
            }
            (None, Format::Combined) => Ok(vec![(combined::TIME, TimeUnit::Auto)]),
            (None, _) => {
                let found: Vec<_> = TIMES.iter().filter_map(|name| find(name).ok()).collect();
                if found.is_empty() {
                    let known = TIMES.join(", ");
                    let sentence = format!(
                        "the log has none of the columns {known}; name the one of the time with --time"
                    );
                    return Err(sentence.into());
                }
                Ok(found)
            }
        }
    }

    /// The fields of the policy's key, if the log has them; else the nearest there is.
    fn default_key(
        &self,
        kind: Format,
        names: &mut dyn Names,
        policy: &PolicyConfig,
        tally: &mut Tally,
    ) -> Result<Expression, Error> {
        if !policy.key.is_empty() && policy.key.iter().all(|name| names.has(name)) {
            let mut parts = Vec::with_capacity(policy.key.len());
            for name in &policy.key {
                let (place, _) = names.find(name)?;
                let part = Part::field(place);
                // As the server groups addresses.
                parts.push(if name == "client_ip" { Part::net(part) } else { part });
            }
            let alone = if parts.len() == 1 { parts.pop() } else { None };
            return Ok(Expression::of(alone.unwrap_or_else(|| Part::composed(parts))));
        }
        let address = ADDRESSES.iter().find(|name| names.has(name));
        let (part, default) = match kind {
            Format::Combined => {
                (Part::net(Part::field(combined::CLIENT_IP)), "the key is client_ip".to_owned())
            }
            _ if names.has("key") => {
                (Part::field(names.find("key")?.0), "the key is `key`".to_owned())
            }
            _ => match address {
                Some(name) => {
                    (Part::net(Part::field(names.find(name)?.0)), format!("the key is `{name}`"))
                }
                None => (Part::text(""), "all lines have the same key".to_owned()),
            },
        };
        if !policy.key.is_empty() {
            let wanted = policy.key.join(" and ");
            let message = format!(
                "policy `{}` forms its keys from {wanted}, which the log does not have: {default}; choose another with --key",
                policy.name()
            );
            let facts = json!({ "policy": policy.name(), "wanted": policy.key });
            tally.notes.push(Note::new("missing-key-fields", facts, message));
        } else if kind != Format::Combined && !names.has("key") {
            let message = match address {
                Some(_) => format!("{default}; choose another with --key"),
                None => format!("{default}; give each client its own with --key"),
            };
            tally.notes.push(Note::new("default-key", json!({ "key": address }), message));
            // Several policies may leave the same note.
            tally.notes.dedup();
        }
        Ok(Expression::of(part))
    }
}

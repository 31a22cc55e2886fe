//! From flags and the first line to a log that can be read.

use waterclock_config::{PolicyConfig, cannot_read};

use super::ahead::Ahead;
use super::combined::{self, CombinedNames};
use super::csv::Csv;
use super::format::Format;
use super::instant::{Instants, Unit};
use super::json::Json;
use super::plan::Plan;
use super::price::Price;
use super::spread::Spread;
use super::tally::Tally;
use super::{Log, Order};
use crate::expr::{self, Expression, Names, Part};
use crate::failure::Failure;
use crate::trace::input::Input;
use crate::trace::lines::Lines;

/// Where times are looked for, the likeliest first.
const TIMES: [&str; 6] = ["t_us", "time", "timestamp", "ts", "@timestamp", "date"];

/// A kind of log.
#[derive(Clone, Copy)]
pub(in crate::trace) enum Kind {
    Combined,
    Json,
    Csv,
}

/// What the flags say about a log.
pub(in crate::trace) struct Settings<'s> {
    pub(in crate::trace) kind: Kind,
    pub(in crate::trace) key: Option<&'s str>,
    pub(in crate::trace) cost: &'s [String],
    /// What costs are for.
    pub(in crate::trace) counted_by: &'s [&'s PolicyConfig],
    pub(in crate::trace) tier: Option<&'s str>,
    pub(in crate::trace) condition: Option<&'s str>,
    pub(in crate::trace) time: Option<&'s str>,
    pub(in crate::trace) time_unit: Unit,
    pub(in crate::trace) is_spread: bool,
    pub(in crate::trace) is_strict: bool,
    pub(in crate::trace) delimiter: u8,
    pub(in crate::trace) has_header: bool,
}

/// Opens a log for policies; nothing if there is not a single line in it.
pub(in crate::trace) fn open(
    settings: &Settings<'_>,
    input: Input,
    specs: &[&PolicyConfig],
) -> Result<Option<Ahead>, Failure> {
    let mut lines = Lines::new(input);
    let is_there = lines.advance();
    if !is_there.map_err(|error| cannot_read(lines.name(), &error))? {
        return Ok(None);
    }
    let first = lines.text().map(|text| text.into_owned()).unwrap_or_default();
    let mut tally = Tally::default();
    let (format, plan) = match settings.kind {
        Kind::Combined => {
            let plan = settings.plan(&mut CombinedNames, specs, &mut tally)?;
            (Format::Combined, plan)
        }
        Kind::Json => {
            let mut json = Json::new(first);
            let plan = settings.plan(&mut json, specs, &mut tally)?;
            (Format::Json(json), plan)
        }
        Kind::Csv => {
            let place = format!("{}:{}", lines.name(), lines.number);
            let csv = Csv::new(first.as_bytes(), settings.delimiter, settings.has_header);
            let mut csv = csv.map_err(|_| {
                format!(
                    "{place}: the names of the columns must be on one line; a quote is not closed"
                )
            })?;
            let plan = settings.plan(&mut csv, specs, &mut tally)?;
            (Format::Csv(csv), plan)
        }
    };
    if !matches!(settings.kind, Kind::Csv) || !settings.has_header {
        lines.keep();
    }
    let log = Log {
        lines,
        format,
        plan,
        order: Order::default(),
        spread: settings.is_spread.then(Spread::default),
        tally,
        is_strict: settings.is_strict,
        is_end: false,
        complaint: None,
        spare: Vec::new(),
    };
    Ahead::start(log).map(Some)
}

impl Settings<'_> {
    fn plan(
        &self,
        names: &mut dyn Names,
        specs: &[&PolicyConfig],
        tally: &mut Tally,
    ) -> Result<Plan, Failure> {
        let mut read = |flag, text: Option<&str>, wanted| {
            text.map(|text| Expression::parse(flag, text, names, wanted)).transpose()
        };
        let condition = read("--where", self.condition, expr::Kind::Truth)?;
        let key = read("--key", self.key, expr::Kind::Text)?;
        let tier = read("--tier", self.tier, expr::Kind::Text)?;
        let cost = Price::read(self.cost, names, self.counted_by)?;
        // What is said goes for all of them; else each has its own.
        let (key, other_keys) = match (key, specs) {
            (Some(key), _) => (key, Vec::new()),
            (None, []) => return Err("a log is read for a policy".to_owned().into()),
            (None, [first, others @ ..]) => {
                let mut of = |spec: &&PolicyConfig| self.default_key(names, spec, tally);
                (of(first)?, others.iter().map(of).collect::<Result<_, _>>()?)
            }
        };
        let times = self.times(names)?;
        let instants = Instants::default();
        Ok(Plan { condition, times, key, other_keys, cost, tier, instants, has_found_time: false })
    }

    fn times(&self, names: &mut dyn Names) -> Result<Vec<(usize, Unit)>, Failure> {
        let mut find = |name: &str| {
            let unit = self.time_unit.of_field(name);
            names.find(name).map(|(place, _)| (place, unit))
        };
        match (self.time, self.kind) {
            (Some(name), _) => {
                let found = find(name).map_err(|sentence| format!("--time: {sentence}"))?;
                Ok(vec![found])
            }
            (None, Kind::Combined) => Ok(vec![(combined::TIME, Unit::Auto)]),
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

    /// What the policy makes its keys of, if the log has it; else what comes nearest.
    fn default_key(
        &self,
        names: &mut dyn Names,
        spec: &PolicyConfig,
        tally: &mut Tally,
    ) -> Result<Expression, Failure> {
        if !spec.key.is_empty() && spec.key.iter().all(|name| names.has(name)) {
            let mut parts = Vec::with_capacity(spec.key.len());
            for name in &spec.key {
                let (place, _) = names.find(name)?;
                let part = Part::field(place);
                // The server groups addresses, and nothing else.
                parts.push(if name == "client_ip" { Part::net(part) } else { part });
            }
            let alone = if parts.len() == 1 { parts.pop() } else { None };
            return Ok(Expression::of(alone.unwrap_or_else(|| Part::composed(parts))));
        }
        let (part, said) = match self.kind {
            Kind::Combined => (Part::net(Part::field(combined::CLIENT_IP)), "the key is client_ip"),
            _ if names.has("key") => (Part::field(names.find("key")?.0), "the key is `key`"),
            _ => (Part::text(""), "all lines have the same key"),
        };
        if !spec.key.is_empty() {
            let wanted = spec.key.join(" and ");
            tally.settled.push(format!(
                "policy `{}` makes its keys of {wanted}, which the log does not have: {said}; --key names another",
                spec.name
            ));
        } else if !matches!(self.kind, Kind::Combined) && !names.has("key") {
            tally.settled.push(format!("{said}; --key tells them apart"));
            // Several policies may have nothing else to say.
            tally.settled.dedup();
        }
        Ok(Expression::of(part))
    }
}

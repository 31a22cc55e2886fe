//! What to make of a line: whether it counts, its time, key, cost and tier.

use waterclock::{Cost, Policy, Scope, Verb};
use waterclock_config::{MAX_KEY, PolicyConfig};
use waterclock_core::Decimal;

use super::ahead::Entry;
use super::beside::{OldDecision, RequestFields};
use super::instant::{Instants, TimeUnit};
use crate::Error;
use crate::expr::{Expression, Kind, Names, Row, Value};
use crate::trace::event::{misunderstood, unknown_tier};

/// The options of a log, ready for lines.
pub(super) struct Plan {
    pub(super) condition: Option<Expression>,
    /// The first of these fields that a line has is its time.
    pub(super) times: Vec<(usize, TimeUnit)>,
    pub(super) key: Expression,
    /// The keys of the policies after the first, where each forms its own.
    pub(super) other_keys: Vec<Expression>,
    pub(super) cost: Price,
    /// The tier, and what it must make sense to.
    pub(super) tier: Option<(Expression, Vec<Scope>)>,
    /// Where the path and the user agent are, if they are read.
    pub(super) request: RequestFields,
    /// What another limiter decided, if that is read.
    pub(super) old: Option<OldDecision>,
    pub(super) instants: Instants,
    /// Whether a line had a time: then the format is right.
    pub(super) has_found_time: bool,
}

impl Plan {
    /// Fills an entry; false if the line does not count. An error says why the line cannot be read.
    pub(super) fn fill(&mut self, row: &dyn Row, entry: &mut Entry) -> Result<bool, String> {
        if let Some(condition) = &self.condition
            && !condition
                .eval(row)
                .and_then(|value| value.to_truth())
                .map_err(in_flag("--where"))?
        {
            return Ok(false);
        }
        entry.t_us = self.time(row)?;
        self.has_found_time = true;
        write_key(&self.key, row, &mut entry.key)?;
        entry.other_keys.resize_with(self.other_keys.len(), String::new);
        for (expression, key) in self.other_keys.iter().zip(&mut entry.other_keys) {
            write_key(expression, row, key)?;
        }
        entry.cost = self.cost.of(row)?;
        entry.tier.clear();
        let mut tier = None;
        if let Some((expression, scopes)) = &self.tier {
            tier = expression.eval(row).map_err(in_flag("--tier"))?.into_text();
            if let Some(error) = unknown_tier(scopes.iter(), tier.as_deref()) {
                return Err(format!("--tier: {error}"));
            }
        }
        entry.has_tier = tier.is_some();
        entry.tier.push_str(tier.as_deref().unwrap_or(""));
        self.request.write(row, entry);
        entry.old_refused = self.old.as_ref().map(|old| old.is_refused(row)).transpose()?;
        Ok(true)
    }

    fn time(&mut self, row: &dyn Row) -> Result<u64, String> {
        for (place, unit) in &self.times {
            let value = row.value(*place);
            if value != Value::Missing {
                return self.instants.read(&value, *unit);
            }
        }
        let names: Vec<String> =
            self.times.iter().map(|(place, _)| format!("`{}`", row.name(*place))).collect();
        Err(format!(
            "there is no time in this line: {} is missing; name the field with --time",
            names.join(" or ")
        ))
    }
}

fn write_key(expression: &Expression, row: &dyn Row, room: &mut String) -> Result<(), String> {
    room.clear();
    match expression.eval(row).map_err(in_flag("--key"))?.into_text() {
        Some(key) if key.len() <= MAX_KEY => room.push_str(&key),
        Some(key) => {
            let found = key.len();
            return Err(format!("a key must be at most {MAX_KEY} bytes long; found {found}"));
        }
        None => return Err(missing("--key", expression, row)),
    }
    Ok(())
}

/// A cost, rounded up.
pub(super) fn whole_number(number: Decimal) -> Result<u64, String> {
    u64::try_from(number.ceil())
        .map_err(|_| format!("a cost must be from 0 to {}; found {number}", u64::MAX))
}

/// Adds the flag of the expression to a sentence.
pub(super) fn in_flag(flag: &str) -> impl Fn(String) -> String {
    move |sentence| format!("{flag}: {sentence}")
}

pub(super) fn missing(flag: &str, expression: &Expression, row: &dyn Row) -> String {
    let field = expression.missing(row).unwrap_or_else(|| "a field".to_owned());
    format!(
        "there is no `{field}` in this line, which {flag} needs; set a default with or_else({field}, …)"
    )
}

const FLAG: &str = "--cost";

/// What a line costs: one expression, or one for each unit that the policy counts.
pub(super) enum Price {
    /// The usual cost.
    Usual,
    One(Expression),
    Each(Vec<(Box<str>, Expression)>),
}

impl Price {
    /// Reads `--cost`: one expression, or `unit=expression` for each unit.
    pub(super) fn read(
        texts: &[String],
        names: &mut dyn Names,
        counted_by: &[&PolicyConfig],
    ) -> Result<Price, Error> {
        let mut read = |text: &str| -> Result<Expression, Error> {
            let expression = Expression::parse(FLAG, text, names, Kind::Number)?;
            if let Some(number) =
                expression.constant().and_then(|cost| cost.to_number().ok().flatten())
            {
                whole_number(number).map_err(in_flag(FLAG))?;
            }
            Ok(expression)
        };
        let (price, example) = match texts {
            [] => return Ok(Price::Usual),
            [text] if unit_of(text).is_none() => (Price::One(read(text)?), Cost::from(1)),
            texts => {
                let mut each: Vec<(Box<str>, Expression)> = Vec::new();
                for text in texts {
                    let (unit, text) = unit_of(text).ok_or_else(|| {
                        format!("{FLAG}: `{text}` names no unit; write unit={text}")
                    })?;
                    if each.iter().any(|(known, _)| **known == *unit) {
                        return Err(format!("{FLAG}: the unit `{unit}` is given twice").into());
                    }
                    each.push((unit.into(), read(text)?));
                }
                let example = Cost::of_units(each.iter().map(|(unit, _)| (unit.clone(), 1)));
                (Price::Each(each), example)
            }
        };
        let policies = counted_by.iter().map(|policy| &**policy.policy());
        let several = policies.clone().find(|policy| policy.counts_several());
        match (misunderstood(policies, Verb::Check, Some(&example)), &price, several) {
            (None, ..) => Ok(price),
            (Some(error), Price::One(_), Some(several)) => {
                Err(format!("{FLAG}: {error}, such as --cost {}=…", a_unit(several)).into())
            }
            (Some(error), ..) => Err(format!("{FLAG}: {error}").into()),
        }
    }

    pub(super) fn of(&self, row: &dyn Row) -> Result<Option<Cost>, String> {
        match self {
            Price::Usual => Ok(None),
            Price::One(expression) => Ok(Some(Cost::from(whole(expression, row)?))),
            Price::Each(each) => {
                let unit = |(unit, expression): &(Box<str>, Expression)| {
                    Ok((unit.clone(), whole(expression, row)?))
                };
                let units = each.iter().map(unit).collect::<Result<Vec<_>, String>>()?;
                Ok(Some(Cost::of_units(units)))
            }
        }
    }
}

/// `tokens=bytes / 4`, but not `status == 200`.
fn unit_of(text: &str) -> Option<(&str, &str)> {
    let (unit, rest) = text.split_once('=')?;
    let unit = unit.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_unit = !unit.is_empty() && unit.chars().all(is_name) && !rest.starts_with(['=', '~']);
    is_unit.then_some((unit, rest))
}

fn a_unit(policy: &Policy) -> &str {
    let mut units = policy.units();
    units.find(|unit| *unit != "requests").unwrap_or("requests")
}

fn whole(cost: &Expression, row: &dyn Row) -> Result<u64, String> {
    let number = cost.eval(row).and_then(|value| value.to_number()).map_err(in_flag(FLAG))?;
    whole_number(number.ok_or_else(|| missing(FLAG, cost, row))?)
}

//! What a line costs: one expression, or one for each unit that the policy counts.

use waterclock::{Cost, Policy, Verb};
use waterclock_config::PolicyConfig;

use super::plan::{in_flag, missing, whole_number};
use crate::expr::{Expression, Kind, Names, Row};
use crate::failure::Failure;
use crate::trace::event::misunderstood;

const FLAG: &str = "--cost";

/// The expressions, and the units that they are for.
pub(super) enum Price {
    /// What is usual.
    Unsaid,
    One(Expression),
    Each(Vec<(Box<str>, Expression)>),
}

impl Price {
    /// What `--cost` says, once for all limits or as `unit=…` once for each unit.
    pub(super) fn read(
        texts: &[String],
        names: &mut dyn Names,
        counted_by: &[&PolicyConfig],
    ) -> Result<Price, Failure> {
        let mut read = |text: &str| -> Result<Expression, Failure> {
            let expression = Expression::parse(FLAG, text, names, Kind::Number)?;
            let same = expression.constant();
            if let Some(number) = same.and_then(|cost| cost.to_number().ok().flatten()) {
                whole_number(number).map_err(in_flag(FLAG))?;
            }
            Ok(expression)
        };
        let (price, example) = match texts {
            [] => return Ok(Price::Unsaid),
            [text] if unit_of(text).is_none() => (Price::One(read(text)?), Cost::from(1)),
            texts => {
                let mut each: Vec<(Box<str>, Expression)> = Vec::new();
                for text in texts {
                    let (unit, text) = unit_of(text).ok_or_else(|| {
                        format!("{FLAG}: `{text}` does not say of which unit; write unit={text}")
                    })?;
                    if each.iter().any(|(known, _)| **known == *unit) {
                        return Err(format!("{FLAG}: the unit `{unit}` is there twice").into());
                    }
                    each.push((unit.into(), read(text)?));
                }
                let example = Cost::of_units(each.iter().map(|(unit, _)| (unit.clone(), 1)));
                (Price::Each(each), example)
            }
        };
        let policies = counted_by.iter().map(|spec| &spec.built);
        let several = policies.clone().find(|policy| policy.counts_several());
        match (misunderstood(policies, Verb::Check, Some(&example)), &price, several) {
            (None, ..) => Ok(price),
            (Some(error), Price::One(_), Some(several)) => {
                Err(format!("{FLAG}: {error}, such as --cost {}=…", some_unit(several)).into())
            }
            (Some(error), ..) => Err(format!("{FLAG}: {error}").into()),
        }
    }

    pub(super) fn of(&self, row: &dyn Row) -> Result<Option<Cost>, String> {
        match self {
            Price::Unsaid => Ok(None),
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

fn some_unit(policy: &Policy) -> &str {
    let mut units = policy.units();
    units.find(|unit| *unit != "requests").unwrap_or("requests")
}

fn whole(cost: &Expression, row: &dyn Row) -> Result<u64, String> {
    let number = cost.eval(row).and_then(|value| value.to_number()).map_err(in_flag(FLAG))?;
    whole_number(number.ok_or_else(|| missing(FLAG, cost, row))?)
}

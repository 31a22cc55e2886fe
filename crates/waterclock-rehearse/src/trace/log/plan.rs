//! What becomes of a line: whether it counts, when, whose and how much it is.

use waterclock_server::engine::MAX_KEY;

use super::entry::Entry;
use super::instant::{Instants, Unit};
use super::price::Price;
use crate::expr::{Expression, Ratio, Row, Value};

/// What the flags say, ready for lines.
pub(super) struct Plan {
    pub(super) condition: Option<Expression>,
    /// The first of these fields that a line has is its time.
    pub(super) times: Vec<(usize, Unit)>,
    pub(super) key: Expression,
    /// Of the policies after the first, where each makes its own.
    pub(super) other_keys: Vec<Expression>,
    /// 1 where nothing is said.
    pub(super) cost: Price,
    pub(super) tier: Option<Expression>,
    pub(super) instants: Instants,
    /// Whether a line was found to have a time: then the log is what it is said to be.
    pub(super) has_found_time: bool,
}

impl Plan {
    /// Fills an entry; whether the line counts at all. A complaint is why it cannot be read.
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
        let tier = self.tier.as_ref().map(|tier| tier.eval(row)).transpose();
        let tier = tier.map_err(in_flag("--tier"))?.and_then(Value::into_text);
        entry.has_tier = tier.is_some();
        entry.tier.push_str(tier.as_deref().unwrap_or(""));
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
            "there is no time in this line: {} is missing; --time names the field",
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

/// As a cost is counted.
pub(super) fn whole_number(number: Ratio) -> Result<u64, String> {
    u64::try_from(number.ceil())
        .map_err(|_| format!("a cost must be from 0 to {}; found {number}", u64::MAX))
}

/// Says which expression it was that had no value.
pub(super) fn in_flag(flag: &str) -> impl Fn(String) -> String {
    move |sentence| format!("{flag}: {sentence}")
}

pub(super) fn missing(flag: &str, expression: &Expression, row: &dyn Row) -> String {
    let field = expression.missing(row).unwrap_or_else(|| "a field".to_owned());
    format!(
        "there is no `{field}` in this line, which {flag} needs; or_else({field}, …) mends that"
    )
}

//! Reading one limit, a table or shorthand.

use toml::de::DeValue;
use waterclock::LimitError;
use waterclock::calendar::CalendarError;

use super::algorithm::{ALGORITHMS, AlgorithmWord, COMMON, KEYS, WORDS, unknown};
use super::duration::Micros;
use super::error::Fault;
use super::spec::AlgorithmSpec;
use super::suggest::nearest;
use super::suggest::{all_of, quoted};
use super::table::Field;
use super::table::Table;
use super::{build, numbers, shorthand};

/// A limit before its name is settled among its siblings.
pub(crate) struct LimitRead {
    pub(crate) at: usize,
    /// The name in the file.
    pub(crate) name: Option<String>,
    /// The algorithm's word in the file: what the limit is called when it has no name.
    pub(crate) word: &'static str,
    /// Nothing for old limits that limit nothing.
    pub(crate) algorithm: Option<AlgorithmSpec>,
    pub(crate) min_interval: Option<Micros>,
    pub(crate) unit: String,
    pub(crate) shadow: bool,
}

/// Nothing if there was something to complain about.
pub(crate) fn read(field: &Field<'_>) -> Option<LimitRead> {
    match field.value.get_ref() {
        DeValue::String(text) => {
            let limit = field.faults.keep(from_shorthand(field, text))?;
            field.faults.keep(possible(limit, |_| None))
        }
        DeValue::Table(_) => {
            let mut table = field.faults.keep(field.table("a limit", KEYS))?;
            let limit = from_table(&mut table)?;
            field.faults.keep(possible(limit, |name| Some(table.field(name)?.at())))
        }
        _ => {
            let sentence = "a limit must be a table, or a string such as \"10/s\"";
            field.faults.push(Fault::at(field.at(), sentence));
            None
        }
    }
}

/// Numbers that look right one by one may still not work together; `place` finds the one to blame.
fn possible(limit: LimitRead, place: impl Fn(&str) -> Option<usize>) -> Result<LimitRead, Fault> {
    let Some(Err(error)) = limit.algorithm.as_ref().map(build::algorithm) else {
        return Ok(limit);
    };
    let culprit = match &error {
        CalendarError::UnknownTimeZone(_) => "timezone",
        CalendarError::Limit(LimitError::SlowRefill) => "capacity",
        _ => "limit",
    };
    Err(Fault::at(place(culprit).unwrap_or(limit.at), error.to_string()))
}

fn from_shorthand(field: &Field<'_>, text: &str) -> Result<LimitRead, Fault> {
    let said = shorthand::parse(text).map_err(|sentence| Fault::at(field.at(), sentence))?;
    Ok(LimitRead {
        at: field.at(),
        name: None,
        word: said.algorithm,
        algorithm: Some(said.spec()),
        min_interval: None,
        unit: "requests".to_owned(),
        shadow: false,
    })
}

fn from_table(table: &mut Table<'_>) -> Option<LimitRead> {
    let word = table.required("algorithm", |field| match field.text() {
        Ok(text) if !WORDS.contains(&text) => Err(Fault::at(field.at(), unknown(text, WORDS))),
        _ => field.word(),
    });
    let Some(algorithm) = ALGORITHMS.iter().find(|algorithm| Some(algorithm.word) == word) else {
        table.refuse_unknown_keys();
        return None;
    };
    table.what = algorithm.a_limit();
    refuse_foreign_keys(table, algorithm);
    let name = table.optional("name", Field::text).map(str::to_owned);
    let unit = table.optional("unit", Field::text).unwrap_or("requests").to_owned();
    let shadow = table.optional("shadow", Field::flag).unwrap_or(false);
    let (spec, min_interval) = if algorithm.word == "legacy" {
        numbers::read_legacy(table)?
    } else {
        let min_interval = table.optional("min_interval", Field::micros);
        (Some(numbers::read(table, algorithm.word)?), min_interval)
    };
    Some(LimitRead {
        at: table.at,
        name,
        word: algorithm.word,
        algorithm: spec,
        min_interval,
        unit,
        shadow,
    })
}

fn refuse_foreign_keys(table: &Table<'_>, algorithm: &AlgorithmWord) {
    for (name, at) in table.names() {
        if COMMON.contains(&name) || algorithm.takes.contains(&name) {
            continue;
        }
        let sentence = if KEYS.iter().any(|key| key.name == name) {
            format!(
                "`{name}` does not belong to `{}`, which takes {}",
                algorithm.word,
                all_of(algorithm.takes)
            )
        } else {
            let hint = match nearest(name, algorithm.takes.iter().chain(COMMON).copied()) {
                Some(own) => format!("; did you mean `{own}`?"),
                None => format!(", which takes {}", all_of(algorithm.takes)),
            };
            format!("unknown key `{name}` in {}{hint}", table.what)
        };
        table.fault_at(at, sentence);
    }
}

/// Names travel in response headers, so they are plain and short.
pub(crate) fn accept_name(name: &str) -> Result<(), String> {
    let plain =
        |character: char| (' '..='~').contains(&character) && !['"', '\\'].contains(&character);
    if (1..=64).contains(&name.len()) && name.chars().all(plain) {
        Ok(())
    } else {
        Err(format!(
            "must be 1 to 64 printable ASCII characters without quotes or backslashes; found {}",
            quoted(name)
        ))
    }
}

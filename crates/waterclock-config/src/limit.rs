//! Reading the limits of a policy: tables, shorthand and lists of them.

use std::collections::HashSet;

use toml::de::DeValue;
use waterclock::{Algorithm, Limit, MAX_LIMITS, Mode};

use super::algorithm::{ALGORITHMS, AlgorithmWord, CALENDAR, COMMON, KEYS, WORDS, unknown};
use super::duration::Micros;
use super::error::Fault;
use super::fields::LimitFields;
use super::suggest::{all_of, did_you_mean, one_of, quoted, synonym};
use super::table::{Field, Table};
use super::{legacy, shorthand};

/// A limit of a list before it has a name.
struct LimitRead {
    at: usize,
    /// The name in the file.
    name: Option<String>,
    /// The algorithm's word in the file: the limit's name when it has no other.
    word: &'static str,
    /// `None` for old limits that limit nothing.
    limit: Option<Limit>,
}

/// A list of limits.
pub(crate) struct LimitList {
    pub(crate) limits: Vec<Limit>,
    /// Where each of them is in the file.
    pub(crate) places: Vec<usize>,
    /// The names of those that limit nothing.
    pub(crate) disabled: Vec<String>,
}

/// Reads a list of limits. `None` if there was a fault.
pub(crate) fn read_list(field: &Field<'_>, mode: Mode) -> Option<LimitList> {
    let elements = field.list().ok()?;
    let mut faults = Vec::new();
    if elements.is_empty() || elements.len() > MAX_LIMITS {
        let rest = format!("must hold 1 to {MAX_LIMITS} limits; found {}", elements.len());
        faults.push(field.fault(rest));
    }
    let reads: Vec<Option<LimitRead>> = elements.iter().map(read).collect();
    let known: Vec<&LimitRead> = reads.iter().flatten().collect();
    faults.extend(twin_names(&known));
    faults.extend(unfit_for(mode, &known));
    let is_sound = faults.is_empty();
    faults.into_iter().for_each(|fault| field.faults.push(fault));
    let reads = reads.into_iter().collect::<Option<Vec<LimitRead>>>()?;
    is_sound.then(|| with_names(reads))
}

fn twin_names(limits: &[&LimitRead]) -> impl Iterator<Item = Fault> {
    let mut seen = HashSet::new();
    limits.iter().filter_map(move |limit| {
        let name = limit.name.as_deref()?;
        let message =
            format!("two limits of one policy are named `{name}`; give each its own `name`");
        (!seen.insert(name)).then(|| Fault::at(limit.at, message))
    })
}

/// Limits that the mode does not support. The core rejects them too, but without a position in the file.
fn unfit_for(mode: Mode, limits: &[&LimitRead]) -> Vec<Fault> {
    let built = || limits.iter().filter_map(|read| Some((read, read.limit.as_ref()?)));
    match mode {
        Mode::Partial => {
            let Some((_, first)) = built().next() else { return Vec::new() };
            let odd = built().find(|(_, limit)| limit.unit() != first.unit());
            let fault = odd.map(|(read, odd)| {
                let (first, other) = (first.unit(), odd.unit());
                let message = format!(
                    "limits of different units (`{first}` and `{other}`) cannot be used with mode = \"partial\" (\"nary\"): a part of a cost would have no unit; use mode = \"binary\""
                );
                Fault::at(read.at, message)
            });
            fault.into_iter().collect()
        }
        Mode::CountRefusals => built()
            .filter(|(_, limit)| !limit.algorithm().records_refusals())
            .map(|(read, _)| {
                let message = format!(
                    "`{}` cannot be used with mode = \"count-refusals\" (\"uniform\"); only {} count refused attempts",
                    read.word,
                    all_of(Algorithm::RECORD_REFUSALS)
                );
                Fault::at(read.at, message)
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// A limit without a name is named after its algorithm: `gcra`, `gcra-2`, `gcra-3`.
fn with_names(reads: Vec<LimitRead>) -> LimitList {
    let mut taken: HashSet<String> = reads.iter().filter_map(|read| read.name.clone()).collect();
    let mut list = LimitList { limits: Vec::new(), places: Vec::new(), disabled: Vec::new() };
    for read in reads {
        let name = read.name.unwrap_or_else(|| free_name(read.word, &taken));
        taken.insert(name.clone());
        match read.limit {
            Some(limit) => {
                list.limits.push(limit.with_name(&name));
                list.places.push(read.at);
            }
            None => list.disabled.push(name),
        }
    }
    list
}

fn free_name(word: &str, taken: &HashSet<String>) -> String {
    std::iter::once(word.to_owned())
        .chain((2..).map(|number: u32| format!("{word}-{number}")))
        .find(|name| !taken.contains(name))
        .unwrap_or_else(|| word.to_owned())
}

/// One limit, a table or shorthand. `None` if there was a fault.
fn read(field: &Field<'_>) -> Option<LimitRead> {
    match field.value.get_ref() {
        DeValue::String(text) => {
            let parsed = shorthand::parse(text).map_err(|message| Fault::at(field.at(), message));
            let parsed = field.faults.keep(parsed)?;
            let limit = parsed.fields().limit();
            let limit = limit.map_err(|error| Fault::at(field.at(), error.to_string()));
            let limit = Some(field.faults.keep(limit)?);
            Some(LimitRead { at: field.at(), name: None, word: parsed.algorithm, limit })
        }
        DeValue::Table(_) => read_table(field.faults.keep(field.table("a limit", KEYS))?),
        _ => {
            let message = "a limit must be a table, or a string such as \"10/s\"";
            field.faults.push(Fault::at(field.at(), message));
            None
        }
    }
}

fn read_table(mut table: Table<'_>) -> Option<LimitRead> {
    let word = if legacy::is_one(&table) {
        Some(legacy::WORD)
    } else {
        table.required("algorithm", |field| match field.text() {
            Ok(text) if !WORDS.contains(&text) => Err(Fault::at(field.at(), unknown(text, WORDS))),
            _ => field.word(),
        })
    };
    let Some(algorithm) = ALGORITHMS.iter().find(|algorithm| Some(algorithm.word) == word) else {
        table.refuse_unknown_keys();
        return None;
    };
    table.what = algorithm.a_limit();
    refuse_foreign_keys(&table, algorithm);
    let is_legacy = algorithm.word == legacy::WORD;
    let table = if is_legacy { table.with_keys(legacy::KEYS) } else { table };
    let name = match is_legacy {
        true => legacy::name(&table),
        false => table.optional("name", Field::text).map(str::to_owned),
    };
    let unit = table.optional("unit", Field::text).map(str::to_owned);
    let shadow = table.optional("shadow", Field::flag).unwrap_or(false);
    let fields =
        if is_legacy { legacy::read(&table)? } else { Some(read_fields(&table, algorithm)?) };
    let limit = match fields {
        None => None,
        Some(fields) => {
            let limit = LimitFields { unit, shadow, ..fields }.limit().map_err(|error| {
                let at = table.field(error.field()).map_or(table.at, |field| field.at());
                Fault::at(at, error.to_string())
            });
            Some(table.faults().keep(limit)?)
        }
    };
    Some(LimitRead { at: table.at, name, word: algorithm.word, limit })
}

/// The numbers that the algorithm takes. `None` if one that it needs is absent or wrong.
fn read_fields(table: &Table<'_>, algorithm: &AlgorithmWord) -> Option<LimitFields> {
    algorithm.needs.iter().for_each(|name| table.needs(name));
    let takes = |name: &str| COMMON.contains(&name) || algorithm.takes.contains(&name);
    let whole = |name| takes(name).then(|| table.optional(name, Field::whole)).flatten();
    let micros = |name| {
        let read = takes(name).then(|| table.optional(name, Field::micros)).flatten();
        read.map(|Micros(micros)| micros)
    };
    let is_windowed = takes("align");
    let has_default = takes("every") && !algorithm.needs.contains(&"every");
    let default_every = has_default.then_some(1_000_000);
    let fields = LimitFields {
        algorithm: algorithm.word.to_owned(),
        limit: whole("limit"),
        per_us: if is_windowed { None } else { micros("per") },
        capacity: whole("capacity"),
        drip: whole("drip"),
        every_us: micros("every").or(default_every),
        buckets: whole("buckets"),
        threshold: takes("threshold")
            .then(|| table.optional("threshold", Field::threshold))
            .flatten(),
        min_samples: whole("min_samples"),
        cool_down_us: micros("cool_down"),
        lease_us: micros("lease"),
        overdraft: takes("overdraft") && table.optional("overdraft", Field::flag) == Some(true),
        min_interval_us: micros("min_interval"),
        ..LimitFields::default()
    };
    let fields = if is_windowed { read_window(table, fields)? } else { fields };
    let is_whole = algorithm.needs.iter().all(|name| match *name {
        "limit" => fields.limit.is_some(),
        "per" => fields.per_us.is_some() || fields.per.is_some(),
        "capacity" => fields.capacity.is_some(),
        "every" => fields.every_us.is_some(),
        "threshold" => fields.threshold.is_some(),
        "min_samples" => fields.min_samples.is_some(),
        "cool_down" => fields.cool_down_us.is_some(),
        "lease" => fields.lease_us.is_some(),
        _ => true,
    });
    is_whole.then_some(fields)
}

/// The period of a fixed window: a duration, or a unit of the calendar.
fn read_window(table: &Table<'_>, fields: LimitFields) -> Option<LimitFields> {
    let align = table.optional("align", Field::word).unwrap_or("first");
    let timezone = table.optional("timezone", Field::text);
    let align = Some(align.to_owned());
    if align.as_deref() == Some("calendar") {
        let per = table.optional("per", calendar_word)?;
        let timezone = timezone.map(str::to_owned);
        return Some(LimitFields { per: Some(per.to_owned()), align, timezone, ..fields });
    }
    if let Some(field) = table.field("timezone") {
        table.fault_at(field.at(), "`timezone` needs `align = \"calendar\"`");
    }
    let Micros(per) = table.optional("per", |field| match field.value.get_ref().as_str() {
        Some(text) if CALENDAR.contains(&text) => Err(field.fault(format!(
            "= \"{text}\" is a calendar window, which needs `align = \"calendar\"`; otherwise write a duration such as \"24h\""
        ))),
        _ => field.micros(),
    })?;
    Some(LimitFields { per_us: Some(per), align, ..fields })
}

fn calendar_word(field: &Field<'_>) -> Result<&'static str, Fault> {
    let text = field.text()?;
    CALENDAR.iter().find(|word| **word == text).copied().ok_or_else(|| {
        let hint = did_you_mean(text, CALENDAR.iter().copied());
        field.fault(format!(
            "of a calendar window must be {}; found {}{hint}",
            one_of(CALENDAR),
            quoted(text)
        ))
    })
}

fn refuse_foreign_keys(table: &Table<'_>, algorithm: &AlgorithmWord) {
    for (name, at) in table.names() {
        let is_theirs = legacy::THEIRS.iter().any(|key| key.name == name);
        if COMMON.contains(&name)
            || algorithm.takes.contains(&name)
            || (algorithm.word == legacy::WORD && is_theirs)
        {
            continue;
        }
        let own = || algorithm.takes.iter().chain(COMMON).copied();
        let takes = || format!(", which takes {}", all_of(algorithm.takes));
        let message = if KEYS.iter().any(|key| key.name == name) {
            let hint = synonym(name, own()).unwrap_or_else(takes);
            format!("`{name}` does not belong to `{}`{hint}", algorithm.word)
        } else {
            let hint = Some(did_you_mean(name, own())).filter(|hint| !hint.is_empty());
            let hint = hint.unwrap_or_else(takes);
            format!("unknown key `{name}` in {}{hint}", table.what)
        };
        table.fault_at(at, message);
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

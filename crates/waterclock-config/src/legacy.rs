//! The limits of Misskey and its forks, as those servers define them.
//!
//! `{ max, duration, minInterval }` and `{ type = "bucket", size, dripRate, dripSize }`, in their own spelling or in ours,
//! with or without `algorithm = "legacy"`. Times are numbers of milliseconds, or durations. [`LegacyLimit`] translates the
//! first shape; the second one is rounded up.

use waterclock::{Decimal, LegacyLimit};

use super::algorithm::COMMON;
use super::duration::Micros;
use super::error::Fault;
use super::fields::LimitFields;
use super::limit::accept_name;
use super::schema::{Key, MAX_UNITS, Shape, UNITS};
use super::table::{Field, Table};

/// The algorithm's name in the file.
pub(crate) const WORD: &str = "legacy";

/// The keys of the second shape only.
const BUCKET_KEYS: [&str; 4] = ["size", "drip_rate", "drip_size", "type"];
/// The keys of the first shape only.
const WINDOW_KEYS: [&str; 2] = ["max", "duration"];
/// Our spelling, and theirs.
const SPELLINGS: [(&str, &str); 3] =
    [("min_interval", "minInterval"), ("drip_rate", "dripRate"), ("drip_size", "dripSize")];
/// Milliseconds between two drips, if the limit does not say.
const DRIP_RATE: u64 = 1_000;

/// What their definitions have and ours have not.
pub(crate) const THEIRS: &[Key] = &[
    Key::new(
        "type",
        Shape::Word(&["bucket"]),
        "Old limits: `size` and drips; absent for `max` and `duration`.",
    ),
    Key::new("key", Shape::Syntax(accept_name), "Old limits: the same as `name`."),
    Key::new("minInterval", Shape::Milliseconds, "Old limits: the same as `min_interval`."),
    Key::new("dripRate", Shape::Milliseconds, "Old limits: the same as `drip_rate`."),
    Key::new("dripSize", Shape::Factor, "Old limits: the same as `drip_size`."),
];

/// Every key of such a limit.
pub(crate) const KEYS: &[Key] = &[
    Key::new("name", Shape::Syntax(accept_name), "Its name."),
    Key::new("algorithm", Shape::Word(&[WORD]), "Its algorithm."),
    Key::new("unit", Shape::Syntax(accept_name), "What it counts."),
    Key::new("shadow", Shape::Flag, "Decide and report, never refuse."),
    Key::new("max", UNITS, "Units per duration."),
    Key::new("duration", Shape::Milliseconds, "The period."),
    Key::new("min_interval", Shape::Milliseconds, "The shortest time between two admissions."),
    Key::new("minInterval", Shape::Milliseconds, "The same."),
    Key::new("size", Shape::Factor, "Units that may be used at once.").such_as("10"),
    Key::new("drip_rate", Shape::Milliseconds, "Time between two drips."),
    Key::new("dripRate", Shape::Milliseconds, "The same."),
    Key::new("drip_size", Shape::Factor, "Units that leave at once."),
    Key::new("dripSize", Shape::Factor, "The same."),
    Key::new("type", Shape::Word(&["bucket"]), "The second shape."),
    Key::new("key", Shape::Syntax(accept_name), "Its name."),
];

/// Whether a limit without an algorithm is one of these: it has nothing that only others have.
pub(crate) fn is_one(table: &Table<'_>) -> bool {
    let says_so =
        |name: &str| !COMMON.contains(&name) && !["key", "drip_rate", "drip_size"].contains(&name);
    let names = || table.names().map(|(name, _)| name);
    let is_bucket = table.is_text("type", "bucket");
    names().all(|name| name != "algorithm" && KEYS.iter().any(|key| key.name == name))
        && names().any(|name| if name == "type" { is_bucket } else { says_so(name) })
}

/// The fields of the leaky bucket. `Some(None)` if the limit never limited anything, `None` if there was a fault.
pub(crate) fn read(table: &Table<'_>) -> Option<Option<LimitFields>> {
    for (ours, theirs) in SPELLINGS {
        if let (Some(_), Some(field)) = (table.field(ours), table.field(theirs)) {
            table.fault_at(field.at(), format!("`{theirs}` is `{ours}`; remove one of them"));
            return None;
        }
    }
    if BUCKET_KEYS.iter().any(|name| field(table, name).is_some()) {
        return read_bucket(table).map(Some);
    }
    // `?` comes last, so that one run shows the faults of every key.
    let max = optional(table, "max", Field::whole);
    let duration = optional(table, "duration", milliseconds);
    let min_interval = optional(table, "min_interval", milliseconds);
    let (max, duration, min_interval) = (max?, duration?, min_interval?);
    let mut old = LegacyLimit::new();
    old = max.map_or(old, |max| old.with_max(max));
    old = duration.map_or(old, |duration| old.with_duration(duration.duration()));
    old = min_interval.map_or(old, |gap| old.with_min_interval(gap.duration()));
    match old.limit() {
        Ok(limit) => Some(
            limit.map(|limit| LimitFields { name: String::new(), ..LimitFields::from(&limit) }),
        ),
        Err(error) => {
            table.fault(error.to_string());
            None
        }
    }
}

/// What the limit is called: `name`, or `key` as their definitions have it.
pub(crate) fn name(table: &Table<'_>) -> Option<String> {
    if let (Some(_), Some(key)) = (table.field("name"), table.field("key")) {
        table.fault_at(key.at(), "`key` is the limit's `name` here; remove one of them");
    }
    let name = table.optional("name", Field::text).or_else(|| table.optional("key", Field::text));
    name.map(str::to_owned)
}

/// A value in either spelling.
fn field<'doc>(table: &Table<'doc>, name: &str) -> Option<Field<'doc>> {
    let theirs = SPELLINGS.iter().find(|(ours, _)| *ours == name);
    table.field(name).or_else(|| table.field(theirs?.1))
}

/// `None` if there was a fault: a value that was refused does not count as absent.
fn optional<'doc, T>(
    table: &Table<'doc>,
    name: &str,
    read: impl FnOnce(&Field<'doc>) -> Result<T, Fault>,
) -> Option<Option<T>> {
    match field(table, name) {
        None => Some(None),
        Some(field) => table.faults().keep(read(&field)).map(Some),
    }
}

fn read_bucket(table: &Table<'_>) -> Option<LimitFields> {
    let foreign = WINDOW_KEYS.iter().filter_map(|name| table.field(name)).collect::<Vec<_>>();
    for field in &foreign {
        let rest = "cannot be used with `size`; an old limit has `max` and `duration`, or `size`";
        table.fault_at(field.at(), format!("`{}` {rest}", field.name));
    }
    let kind = optional(table, "type", Field::word);
    let size = table.required("size", |field| at_least_one(field, MAX_UNITS));
    let drip = optional(table, "drip_size", |field| at_least_one(field, MAX_UNITS));
    let every = optional(table, "drip_rate", whole_milliseconds);
    let gap = optional(table, "min_interval", milliseconds);
    let (_, capacity, drip, every, gap) = (kind?, size?, drip?, every?, gap?);
    foreign.is_empty().then(|| LimitFields {
        algorithm: "leaky-bucket".to_owned(),
        capacity: Some(capacity),
        drip: Some(drip.unwrap_or(1)),
        every_us: Some(every.unwrap_or(DRIP_RATE) * 1_000),
        min_interval_us: gap.map(|gap| gap.0).filter(|gap| *gap > 0),
        ..LimitFields::default()
    })
}

/// A whole number, or the next one above.
fn at_least_one(field: &Field<'_>, most: u64) -> Result<u64, Fault> {
    let number = field.decimal()?;
    if number.minus(Decimal::ONE).is_none_or(Decimal::is_negative) {
        return Err(field.must_be("at least 1"));
    }
    u64::try_from(number.ceil())
        .ok()
        .filter(|whole| *whole <= most)
        .ok_or_else(|| field.must_be(&format!("at most {most}")))
}

/// Whole milliseconds, from a number of them or a duration.
fn whole_milliseconds(field: &Field<'_>) -> Result<u64, Fault> {
    let most = Micros::MAX.0 / 1_000;
    match field.value.get_ref().as_str() {
        None => at_least_one(field, most),
        Some(_) => match milliseconds(field)? {
            Micros(micros) if micros < 1_000 => Err(field.must_be("at least 1 ms")),
            Micros(micros) => Ok(micros.div_ceil(1_000)),
        },
    }
}

/// A duration, or a number of milliseconds, cut off to microseconds; 0 is one too.
fn milliseconds(field: &Field<'_>) -> Result<Micros, Fault> {
    if let Some(text) = field.value.get_ref().as_str() {
        return Micros::parse_or_zero(text).map_err(|error| field.fault(error.to_string()));
    }
    let micros = field.decimal()?.times(1_000.into());
    let micros = micros.filter(|micros| micros.ceil() <= Micros::MAX.0.into());
    let micros = micros.ok_or_else(|| field.must_be("at most 100 years"))?;
    let above = u64::try_from(micros.ceil()).unwrap_or(Micros::MAX.0);
    // Something is never nothing, which would not limit.
    Ok(Micros(micros.to_whole().unwrap_or_else(|| (above - 1).max(1))))
}

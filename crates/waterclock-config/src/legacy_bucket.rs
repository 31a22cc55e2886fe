//! The other shape of old limits, `{size, drip_rate, drip_size}`: a leaky bucket in all but name.
//!
//! They count in whole milliseconds and whole units, and round up; so does this.

use super::duration::Micros;
use super::error::Fault;
use super::schema::MAX_UNITS;
use super::spec::AlgorithmSpec;
use super::table::Field;
use super::table::Table;

/// What tells this shape from the other.
const ITS_OWN: [&str; 3] = ["size", "drip_rate", "drip_size"];
const OF_THE_OTHER: [&str; 2] = ["max", "duration"];

/// Milliseconds between two drips, if the limit does not say.
const DRIP_RATE: u64 = 1_000;

/// Whether a limit is of this shape.
pub(crate) fn is_one(table: &Table<'_>) -> bool {
    ITS_OWN.iter().any(|name| table.field(name).is_some())
}

/// The bucket and its `min_interval`. Nothing if there was something to complain about.
pub(crate) fn read(table: &Table<'_>) -> Option<(AlgorithmSpec, Option<Micros>)> {
    let foreign = OF_THE_OTHER.iter().filter_map(|name| table.field(name)).collect::<Vec<_>>();
    for field in &foreign {
        let rest = "cannot stand beside `size`; an old limit has `max` and `duration`, or `size`";
        table.fault_at(field.at(), format!("`{}` {rest}", field.name));
    }
    let size = table.required("size", |field| at_least_one(field, MAX_UNITS));
    // `?` comes last, so that one run complains about every key of the table.
    let drip = read_or(table, "drip_size", 1, |field| at_least_one(field, MAX_UNITS));
    let every = read_or(table, "drip_rate", DRIP_RATE, milliseconds);
    let gap = read_or(table, "min_interval", Micros(0), Field::milliseconds);
    let (capacity, drip, every, gap) = (size?, drip?, every?, gap?);
    let every = Micros(every * 1_000);
    let bucket = AlgorithmSpec::LeakyBucket { capacity, drip, every, overdraft: false };
    foreign.is_empty().then_some((bucket, Some(gap).filter(|gap| gap.0 > 0)))
}

/// What is refused does not count as absent.
fn read_or<'doc, T>(
    table: &Table<'doc>,
    name: &str,
    otherwise: T,
    read: impl FnOnce(&Field<'doc>) -> Result<T, Fault>,
) -> Option<T> {
    if table.field(name).is_some() { table.optional(name, read) } else { Some(otherwise) }
}

/// A whole number, or the next one above.
fn at_least_one(field: &Field<'_>, most: u64) -> Result<u64, Fault> {
    let number = field.decimal()?;
    if number.is_below_one() {
        return Err(field.must_be("at least 1"));
    }
    number
        .ceil()
        .filter(|whole| *whole <= most)
        .ok_or_else(|| field.must_be(&format!("at most {most}")))
}

/// Whole milliseconds, from a number of them or a duration.
fn milliseconds(field: &Field<'_>) -> Result<u64, Fault> {
    let most = Micros::MAX.0 / 1_000;
    match field.value.get_ref().as_str() {
        None => at_least_one(field, most),
        Some(_) => match field.milliseconds()? {
            Micros(micros) if micros < 1_000 => Err(field.must_be("at least 1 ms")),
            Micros(micros) => Ok(micros.div_ceil(1_000)),
        },
    }
}

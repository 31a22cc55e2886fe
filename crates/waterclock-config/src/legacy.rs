//! The old limits of Misskey and its forks, translated to leaky buckets.
//!
//! They have two shapes: `{max, duration, min_interval}`, which counts in whole milliseconds and rounds half up
//! at every step, and `{size, drip_rate, drip_size}`, which rounds up. So does this.

use waterclock::Decimal;

use super::duration::Micros;
use super::error::Fault;
use super::fields::LimitFields;
use super::schema::MAX_UNITS;
use super::table::{Field, Table};

/// The algorithm's name in the file.
pub(crate) const WORD: &str = "legacy";

const MILLISECOND: u128 = 1_000;
/// The keys of the second shape only.
const BUCKET_KEYS: [&str; 3] = ["size", "drip_rate", "drip_size"];
/// The keys of the first shape only.
const WINDOW_KEYS: [&str; 2] = ["max", "duration"];
/// Milliseconds between two drips, if the limit does not say.
const DRIP_RATE: u64 = 1_000;

/// The fields of the leaky bucket. `Some(None)` if the limit never limited anything, `None` if there was a fault.
pub(crate) fn read(table: &Table<'_>) -> Option<Option<LimitFields>> {
    if BUCKET_KEYS.iter().any(|name| table.field(name).is_some()) {
        return read_bucket(table).map(Some);
    }
    let max = table.optional("max", Field::whole);
    let duration = table.optional("duration", Field::milliseconds);
    let min_interval = table.optional("min_interval", Field::milliseconds);
    // A number that was refused must not count as absent.
    let written = ["max", "duration", "min_interval"].map(|name| table.field(name).is_some());
    if written != [max.is_some(), duration.is_some(), min_interval.is_some()] {
        return None;
    }
    let min_interval = min_interval.filter(|interval| interval.0 > 0);
    match translate(max, duration, min_interval) {
        Ok(fields) => Some(fields),
        Err(rest) => {
            table.fault(format!("the old limit {rest}"));
            None
        }
    }
}

/// `None` if the numbers limit nothing. An error is half a sentence about the limit.
fn translate(
    max: Option<u64>,
    duration: Option<Micros>,
    min_interval: Option<Micros>,
) -> Result<Option<LimitFields>, String> {
    match (max, duration, min_interval) {
        (Some(_), Some(Micros(0)), _) => Ok(None),
        (Some(max), Some(duration), min_interval) => window(max, duration, min_interval).map(Some),
        (_, _, Some(every)) => Ok(Some(bucket(1, 1, every, None))),
        _ => Ok(None),
    }
}

fn bucket(capacity: u64, drip: u64, every: Micros, min_interval: Option<Micros>) -> LimitFields {
    LimitFields {
        algorithm: "leaky-bucket".to_owned(),
        capacity: Some(capacity),
        drip: Some(drip),
        every_us: Some(every.0),
        min_interval_us: min_interval.map(|interval| interval.0),
        ..LimitFields::default()
    }
}

/// `max` at once, and the drip that returns them within `duration` in steps of about the interval.
fn window(max: u64, duration: Micros, min_interval: Option<Micros>) -> Result<LimitFields, String> {
    let (size, duration) = (u128::from(max), u128::from(duration.0));
    let step = match min_interval {
        Some(interval) => u128::from(interval.0),
        None => round(duration, size * MILLISECOND) * MILLISECOND,
    };
    let step = step.max(MILLISECOND);
    let drip = round(size * step, duration).max(1);
    let every = round(duration * drip, size * MILLISECOND).max(1) * MILLISECOND;
    let drip = u64::try_from(drip).ok().filter(|drip| *drip <= MAX_UNITS);
    let every = u64::try_from(every).ok().filter(|every| *every <= Micros::MAX.0);
    match (drip, every) {
        (Some(drip), Some(every)) => Ok(bucket(max, drip, Micros(every), min_interval)),
        _ => Err(
            "has a `min_interval` that is too long for its `duration`; write it as a leaky-bucket"
                .to_owned(),
        ),
    }
}

/// Half up.
fn round(numerator: u128, denominator: u128) -> u128 {
    (2 * numerator + denominator) / (2 * denominator)
}

fn read_bucket(table: &Table<'_>) -> Option<LimitFields> {
    let foreign = WINDOW_KEYS.iter().filter_map(|name| table.field(name)).collect::<Vec<_>>();
    for field in &foreign {
        let rest = "cannot be used with `size`; an old limit has `max` and `duration`, or `size`";
        table.fault_at(field.at(), format!("`{}` {rest}", field.name));
    }
    let size = table.required("size", |field| at_least_one(field, MAX_UNITS));
    // `?` comes last, so that one run shows the faults of every key.
    let drip = read_or(table, "drip_size", 1, |field| at_least_one(field, MAX_UNITS));
    let every = read_or(table, "drip_rate", DRIP_RATE, milliseconds);
    let gap = read_or(table, "min_interval", Micros(0), Field::milliseconds);
    let (capacity, drip, every, gap) = (size?, drip?, every?, gap?);
    let gap = Some(gap).filter(|gap| gap.0 > 0);
    foreign.is_empty().then(|| bucket(capacity, drip, Micros(every * 1_000), gap))
}

/// A value that was refused does not count as absent.
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
    if number.minus(Decimal::ONE).is_none_or(Decimal::is_negative) {
        return Err(field.must_be("at least 1"));
    }
    u64::try_from(number.ceil())
        .ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(
        max: Option<u64>,
        duration_ms: Option<u64>,
        min_interval_ms: Option<u64>,
    ) -> Option<LimitFields> {
        let micros = |ms: u64| Micros(ms * 1_000);
        let min_interval = min_interval_ms.map(micros).filter(|interval| interval.0 > 0);
        translate(max, duration_ms.map(micros), min_interval).unwrap()
    }

    fn leaky(
        capacity: u64,
        drip: u64,
        every_ms: u64,
        min_interval_ms: Option<u64>,
    ) -> Option<LimitFields> {
        let min_interval = min_interval_ms.map(|ms| Micros(ms * 1_000));
        Some(bucket(capacity, drip, Micros(every_ms * 1_000), min_interval))
    }

    #[test]
    fn max_and_duration() {
        assert_eq!(translated(Some(10), Some(1_000), None), leaky(10, 1, 100, None));
        assert_eq!(translated(Some(3), Some(1_000), None), leaky(3, 1, 333, None));
        assert_eq!(translated(Some(3000), Some(1_000), None), leaky(3000, 3, 1, None));
        assert_eq!(translated(Some(300), Some(3_600_000), None), leaky(300, 1, 12_000, None));
    }

    #[test]
    fn min_interval_shapes_the_drip_and_stays() {
        assert_eq!(translated(Some(10), Some(1_000), Some(200)), leaky(10, 2, 200, Some(200)));
        assert_eq!(
            translated(Some(10), Some(5_000), Some(1_000)),
            leaky(10, 2, 1_000, Some(1_000))
        );
        assert_eq!(translated(Some(10), Some(1_000), Some(0)), leaky(10, 1, 100, None));
    }

    #[test]
    fn min_interval_alone() {
        assert_eq!(translated(None, None, Some(250)), leaky(1, 1, 250, None));
    }

    #[test]
    fn numbers_that_limit_nothing() {
        for (max, duration, interval) in [
            (None, None, None),
            (Some(5), None, None),
            (None, Some(5), None),
            (Some(5), Some(0), None),
            (None, None, Some(0)),
        ] {
            assert_eq!(translated(max, duration, interval), None);
        }
    }
}

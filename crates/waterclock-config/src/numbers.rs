//! Reading the numbers that an algorithm takes.

use super::algorithm::CALENDAR;
use super::duration::Micros;
use super::error::Fault;
use super::legacy::{Legacy, Translated, translate};
use super::legacy_bucket;
use super::spec::{AlgorithmSpec, Window};
use super::suggest::did_you_mean;
use super::suggest::{one_of, quoted};
use super::table::Field;
use super::table::Table;

/// Nothing if there was something to complain about.
pub(crate) fn read(table: &Table<'_>, word: &str) -> Option<AlgorithmSpec> {
    let limit = || table.required("limit", Field::whole);
    let per = || table.required("per", Field::micros);
    let overdraft = || table.optional("overdraft", Field::flag).unwrap_or(false);
    // `?` comes last, so that one run complains about every key of the table.
    match word {
        "leaky-bucket" => {
            let capacity = table.required("capacity", Field::whole);
            let drip = table.optional("drip", Field::whole).unwrap_or(1);
            let every = table.optional("every", Field::micros).unwrap_or(Micros(1_000_000));
            Some(AlgorithmSpec::LeakyBucket {
                capacity: capacity?,
                drip,
                every,
                overdraft: overdraft(),
            })
        }
        "fixed-window" => {
            let (limit, window) = (limit(), read_window(table));
            Some(AlgorithmSpec::FixedWindow { limit: limit?, window: window? })
        }
        "rolling-window" => {
            let (limit, per, buckets) = (limit(), per(), table.optional("buckets", Field::whole));
            Some(AlgorithmSpec::RollingWindow { limit: limit?, per: per?, buckets })
        }
        "min-interval" => {
            Some(AlgorithmSpec::MinInterval { every: table.required("every", Field::micros)? })
        }
        "error-rate" => {
            let (threshold, per) = (table.required("threshold", Field::threshold), per());
            let min_samples = table.required("min_samples", Field::whole);
            let cool_down = table.required("cool_down", Field::micros);
            Some(AlgorithmSpec::ErrorRate {
                threshold: threshold?,
                per: per?,
                min_samples: min_samples?,
                cool_down: cool_down?,
            })
        }
        "concurrency" => {
            let (limit, lease) = (limit(), table.required("lease", Field::micros));
            Some(AlgorithmSpec::Concurrency { limit: limit?, lease: lease? })
        }
        _ => {
            let (limit, per) = (limit(), per());
            let capacity = table.optional("capacity", Field::whole);
            let (overdraft, limit, per) = (overdraft(), limit?, per?);
            Some(match word {
                "sliding-window" => AlgorithmSpec::SlidingWindow { limit, per },
                "quota" => AlgorithmSpec::Quota { limit, per },
                "even-slots" => AlgorithmSpec::EvenSlots { limit, per },
                _ => AlgorithmSpec::Gcra {
                    limit,
                    per,
                    capacity: capacity.unwrap_or(limit),
                    overdraft,
                },
            })
        }
    }
}

fn read_window(table: &Table<'_>) -> Option<Window> {
    let align = table.optional("align", Field::word).unwrap_or("first");
    let timezone = table.optional("timezone", Field::text);
    if align == "calendar" {
        let per = table.required("per", calendar_word)?;
        return Some(Window::Calendar { per, timezone: timezone.unwrap_or("UTC").to_owned() });
    }
    if let Some(field) = table.field("timezone") {
        table.fault_at(field.at(), "`timezone` needs `align = \"calendar\"`");
    }
    let per = table.required("per", |field| match field.value.get_ref().as_str() {
        Some(text) if CALENDAR.contains(&text) => Err(field.fault(format!(
            "= \"{text}\" is a calendar window, which needs `align = \"calendar\"`; otherwise write a duration such as \"24h\""
        ))),
        _ => field.micros(),
    })?;
    Some(if align == "epoch" { Window::Epoch(per) } else { Window::First(per) })
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

/// The translated limit, if there is one, and its `min_interval`.
pub(crate) fn read_legacy(table: &Table<'_>) -> Option<(Option<AlgorithmSpec>, Option<Micros>)> {
    if legacy_bucket::is_one(table) {
        return legacy_bucket::read(table).map(|(bucket, gap)| (Some(bucket), gap));
    }
    let max = table.optional("max", Field::whole);
    let duration = table.optional("duration", Field::milliseconds);
    let min_interval = table.optional("min_interval", Field::milliseconds);
    // A number that was refused must not count as absent.
    if ["max", "duration", "min_interval"].iter().filter(|name| table.field(name).is_some()).count()
        != usize::from(max.is_some())
            + usize::from(duration.is_some())
            + usize::from(min_interval.is_some())
    {
        return None;
    }
    let min_interval = min_interval.filter(|interval| interval.0 > 0);
    match translate(Legacy { max, duration, min_interval }) {
        Ok(Translated::Limit { algorithm, min_interval }) => Some((Some(algorithm), min_interval)),
        Ok(Translated::Disabled) => Some((None, None)),
        Err(rest) => {
            table.fault(format!("the old limit {rest}"));
            None
        }
    }
}

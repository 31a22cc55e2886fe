//! Misskey: limits of endpoints, `{ duration, max, minInterval }`, counted over a rolling window.

use super::names::Names;
use super::notes::Notes;
use super::options::{self, Options};
use super::sharkey::endpoint;
use super::source::Source;
use super::toml::{Translation, line, policy};
use crate::output::Failure;

const ABOUT: &[&str] = &[
    "Windows roll, and refused calls count, as in Misskey. Without `mode`, refused calls cost nothing.",
    "A user's rateLimitFactor is the `factor` of a check.",
];

/// Milliseconds.
const MS: u32 = 1_000;
/// The most that a window without `buckets` can count.
const MOST_EXACT: u64 = 65_536;

pub(super) fn translate(sources: &[Source]) -> Result<Translation, Failure> {
    let (mut notes, mut names, mut tables) = (Notes::default(), Names::default(), String::new());
    for source in sources {
        for options in options::read(source)? {
            let (given, name) = endpoint(&options, &mut names, &mut notes)?;
            let Some(limit) = limit(&options, &given, &mut notes)? else {
                notes.add(&given, "has neither `max` and `duration` nor `minInterval`, and so limits nothing; it is left out");
                continue;
            };
            for (key, _) in &options.fields {
                if !["key", "max", "duration", "minInterval"].contains(&key.as_str()) {
                    notes.add(&given, format!("`{key}` is no part of a limit and is left out"));
                }
            }
            policy(&mut tables, &name, &source.name);
            line(&mut tables, &format!("limits = [{{ {limit} }}]"));
            line(&mut tables, "mode = \"count-refusals\"");
        }
    }
    Ok(Translation { about: ABOUT, notes: notes.into_notes(), tables })
}

fn limit(options: &Options, given: &str, notes: &mut Notes) -> Result<Option<String>, Failure> {
    let is_some = |time: &waterclock_config::Micros| time.0 > 0;
    let interval = options.time("minInterval", MS)?.filter(is_some);
    let (max, duration) = (options.units("max")?, options.time("duration", MS)?.filter(is_some));
    let (Some(max), Some(duration)) = (max, duration) else {
        // One call in the window; the interval makes a factor scale it.
        let alone = |interval| {
            format!(
                "algorithm = \"rolling-window\", limit = 1, per = \"{interval}\", min_interval = \"{interval}\""
            )
        };
        return Ok(interval.map(alone));
    };
    if max == 0 {
        return Err(options.wrong(
            "max",
            "must be at least 1; to close an endpoint, refuse its calls before they are checked",
        ));
    }
    let mut limit = format!("algorithm = \"rolling-window\", limit = {max}, per = \"{duration}\"");
    if max > MOST_EXACT {
        limit.push_str(", buckets = 1000");
        notes.add(
            given,
            "its window is counted in 1,000 buckets: an exact one counts to 65,536 at most",
        );
    }
    if let Some(interval) = interval {
        notes.add(
            given,
            "calls that come sooner than `minInterval` count towards `max`; in Misskey they do not",
        );
        limit.push_str(&format!(", min_interval = \"{interval}\""));
    }
    Ok(Some(limit))
}

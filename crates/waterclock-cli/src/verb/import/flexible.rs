//! rate-limiter-flexible: options of its limiters.

use super::names::Names;
use super::notes::Notes;
use super::options::{self, Options};
use super::source::Source;
use super::toml::{Translation, line, policy};
use crate::output::Failure;

const ABOUT: &[&str] = &[
    "A key's window starts with its first request, and refused points count, as in rate-limiter-flexible. `gcra` and",
    "`rolling-window` do not admit twice as much around the edge of two windows.",
];

/// Seconds.
const S: u32 = 1_000_000;
/// A window that does not end: the longest there is.
const FOREVER: &str = "36525d";

pub(super) fn translate(sources: &[Source]) -> Result<Translation, Failure> {
    let (mut notes, mut names, mut tables) = (Notes::default(), Names::default(), String::new());
    for source in sources {
        for options in options::read(source)? {
            let prefix = options.text("keyPrefix").filter(|prefix| !prefix.is_empty());
            let given = options.name.as_deref().or(prefix).unwrap_or("rlflx");
            let name = names.of_limiter(given, &mut notes);
            say_rest(&options, &name, &mut notes);
            let points = options.units("points")?;
            let points = points.ok_or_else(|| options.wrong("points", "is needed"))?;
            let duration = options.time("duration", S)?;
            let duration = duration.ok_or_else(|| options.wrong("duration", "is needed"))?;
            if points == 0 {
                notes.add(&name, "`points` 0 refuses everything; it is left out, because a limit is at least 1: refuse such requests before they are checked");
                continue;
            }
            let per = match duration.0 {
                0 => FOREVER.to_owned(),
                _ => duration.to_string(),
            };
            if duration.0 == 0 {
                notes.add(&name, "`duration` 0 never ends; here the window lasts 100 years");
            }
            policy(&mut tables, &name, &source.name);
            line(
                &mut tables,
                &format!(
                    "limits = [{{ algorithm = \"fixed-window\", limit = {points}, per = \"{per}\" }}]"
                ),
            );
            line(&mut tables, "mode = \"count-refusals\"");
        }
    }
    Ok(Translation { about: ABOUT, notes: notes.into_notes(), tables })
}

/// What each other option is here.
fn say_rest(options: &Options, name: &str, notes: &mut Notes) {
    for (option, value) in &options.fields {
        let is_off = value.is_null() || *value == false || value.as_f64() == Some(0.0);
        let instead = match option.as_str() {
            "points" | "duration" => continue,
            "keyPrefix" if options.name.is_none() => continue,
            _ if is_off => continue,
            "keyPrefix" => "is not needed: a policy's keys are its own",
            "blockDuration" => {
                "has no counterpart: a refused key waits for the end of its window. For a longer penalty, block the key for a time (`waterclock override set … --block --expires-in`)"
            }
            "execEvenly" | "execEvenlyMinDelayMs" => {
                "has no counterpart: ask with `wait`, which holds a call until it passes, and use `gcra` with `capacity = 1` for even spacing"
            }
            "inMemoryBlockOnConsumed" | "inMemoryBlockDuration" => {
                "is not needed: the server refuses from memory"
            }
            "insuranceLimiter" => {
                "is `on_store_error`: what happens while the store is unreachable, by default the server's own share of each limit"
            }
            "storeClient"
            | "storeType"
            | "useRedisPackage"
            | "useRedis3AndLowerPackage"
            | "rejectIfRedisNotReady"
            | "dbName"
            | "tableName"
            | "tableCreated"
            | "schemaName"
            | "clearExpiredByTimeout"
            | "indexKeyPrefix"
            | "disableIndexesCreation"
            | "timeoutMs" => "is a setting of the server: `[store] url` says where state lives",
            _ => "has no counterpart and is left out",
        };
        notes.add(name, format!("`{option}` {instead}"));
    }
}

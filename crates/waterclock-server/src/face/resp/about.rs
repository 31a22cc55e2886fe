//! `COMMAND`: what clients may know of the commands there are.

use super::obey::{Next, shown};
use super::parse::Command;
use super::word::{ENTRIES, Entry, find, is};
use super::write::Replies;

pub(super) fn command<'t>(command: Command<'_, '_>, replies: &mut Replies) -> Next<'t> {
    let subcommand = command.get(1);
    if subcommand.is_none() {
        replies.array(ENTRIES.len());
        ENTRIES.iter().for_each(|entry| describe(entry, replies));
    } else if is(subcommand, "COUNT") {
        replies.integer(i64::try_from(ENTRIES.len()).unwrap_or(i64::MAX));
    } else if is(subcommand, "DOCS") {
        // There are none; clients that ask show what they know themselves.
        replies.map(0);
    } else if is(subcommand, "INFO") {
        replies.array(command.len() - 2);
        for name in command.from(2) {
            match find(name) {
                Some(entry) => describe(entry, replies),
                None => replies.null(),
            }
        }
    } else {
        let subcommand = shown(subcommand.unwrap_or_default(), 128);
        replies.error(&format!("ERR unknown subcommand '{subcommand}'. Try COMMAND HELP."));
    }
    Next::Replied
}

/// Name, number of arguments (negative: or more), flags, and where the keys are.
fn describe(entry: &Entry, replies: &mut Replies) {
    let least = i64::try_from(entry.least).unwrap_or(i64::MAX);
    let (first, last) = entry.keys;
    replies.array(6);
    replies.bulk(entry.name.as_bytes());
    replies.integer(if entry.most > entry.least { -least } else { least });
    replies.array(1);
    replies.simple("fast");
    replies.integer(first);
    replies.integer(last);
    replies.integer(i64::from(first != 0));
}

//! The commands there are, by name.

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    ClThrottle,
    Del,
    RlCheck,
    RlPeek,
    RlRefund,
    RlReset,
    RlReserve,
    RlCommit,
    RlCancel,
    RlReport,
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Client,
    Command,
    Info,
    Quit,
    Reset,
}

/// What `COMMAND` tells of one, which is what is enforced too.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) word: Word,
    /// Arguments, the name included.
    pub(super) least: usize,
    pub(super) most: usize,
    /// Which argument is the first key, and which the last, counted from the end if negative.
    pub(super) keys: (i64, i64),
}

impl Entry {
    const fn new(name: &'static str, word: Word, least: usize, most: usize) -> Entry {
        Entry { name, word, least, most, keys: (0, 0) }
    }

    const fn keys(mut self, first: i64, last: i64) -> Entry {
        self.keys = (first, last);
        self
    }
}

const ANY: usize = usize::MAX;

/// The most frequent first. `cl.throttle` counts its arguments itself, with an error of its own.
pub(super) const ENTRIES: &[Entry] = &[
    Entry::new("cl.throttle", Word::ClThrottle, 1, ANY).keys(1, 1),
    Entry::new("rl.check", Word::RlCheck, 3, 4).keys(2, 2),
    Entry::new("rl.peek", Word::RlPeek, 3, 4).keys(2, 2),
    Entry::new("rl.refund", Word::RlRefund, 4, 4).keys(2, 2),
    Entry::new("rl.reset", Word::RlReset, 3, 3).keys(2, 2),
    Entry::new("rl.reserve", Word::RlReserve, 5, 5).keys(2, 2),
    Entry::new("rl.commit", Word::RlCommit, 3, 3),
    Entry::new("rl.cancel", Word::RlCancel, 2, 2),
    Entry::new("rl.report", Word::RlReport, 4, 4).keys(2, 2),
    Entry::new("del", Word::Del, 2, ANY).keys(1, -1),
    Entry::new("ping", Word::Ping, 1, 2),
    Entry::new("echo", Word::Echo, 2, 2),
    Entry::new("hello", Word::Hello, 1, ANY),
    Entry::new("auth", Word::Auth, 2, ANY),
    Entry::new("select", Word::Select, 2, 2),
    Entry::new("client", Word::Client, 2, ANY),
    Entry::new("command", Word::Command, 1, ANY),
    Entry::new("info", Word::Info, 1, ANY),
    Entry::new("quit", Word::Quit, 1, ANY),
    Entry::new("reset", Word::Reset, 1, 1),
];

/// The command of this name, however it is spelt.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether an argument is this word, however it is spelt.
pub(super) fn is(argument: Option<&[u8]>, word: &str) -> bool {
    argument.is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_spelt() {
        assert_eq!(find(b"Cl.Throttle").map(|entry| entry.word), Some(Word::ClThrottle));
        assert!(find(b"cl.throttl").is_none());
        assert!(find(b"").is_none());
        for entry in ENTRIES {
            assert_eq!(find(entry.name.as_bytes()).map(|found| found.name), Some(entry.name));
        }
    }
}

//! The command line of `redis`.

use std::time::Duration;

use crate::flags::{Flags, expect_none};

pub const USAGE: &str = "\
usage: redis [--quick] [--rounds N] [--only NAME,..] [--json PATH]
names: the measurements spread, hot, cold; the contestants get, lua, cell, waterclock, waterclock-lease,
limitador, trypema, trypema-hybrid, flexible, rolling, ratelimiter, multi";

/// The measurements `--only` may name; any other name is a contestant's.
const CASES: [&str; 3] = ["spread", "hot", "cold"];

#[derive(Debug)]
pub struct Options {
    /// Its `only` has contestants.
    pub flags: Flags,
    /// How long 64 callers ask in one turn.
    pub time: Duration,
    /// How many keys.
    pub keys: u64,
    cases: Vec<String>,
}

impl Options {
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut flags, others) = Flags::parse(args)?;
        expect_none(&others)?;
        let (cases, contestants) =
            flags.only.into_iter().partition(|name| CASES.contains(&name.as_str()));
        flags.only = contestants;
        Ok(Self {
            time: Duration::from_millis(if flags.quick { 200 } else { 1_000 }),
            keys: if flags.quick { 1_000 } else { 10_000 },
            flags,
            cases,
        })
    }

    pub fn measures(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|name| name == case)
    }
}

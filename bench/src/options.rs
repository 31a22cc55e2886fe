//! The command line of `in-process`.

use std::time::Duration;

use crate::flags::{Flags, expect_none, number};

pub const USAGE: &str = "\
usage: in-process [--quick] [--rounds N] [--keys 10k,1m,10m] [--only CASE,..] [--json PATH]
cases: one, keyed, algorithms, memory, pauses, flood";

const CASES: [&str; 6] = ["one", "keyed", "algorithms", "memory", "pauses", "flood"];

#[derive(Debug)]
pub struct Options {
    pub flags: Flags,
    /// About how long one measurement takes.
    pub time: Duration,
    /// How many keys, in ascending order.
    pub keys: Vec<usize>,
    /// How often a pause is provoked; the least of the worst counts.
    pub repeats: usize,
}

impl Options {
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (flags, mut others) = Flags::parse(args)?;
        flags.expect_only(&CASES)?;
        let quick = flags.quick;
        let mut keys = if quick { "10k,100k" } else { "10k,1m,10m" }.to_owned();
        if let Some(at) = others.iter().position(|arg| arg == "--keys") {
            keys = others.drain(at..).nth(1).ok_or("--keys needs a value")?;
        }
        expect_none(&others)?;
        let mut keys = keys.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        keys.sort_unstable();
        Ok(Self {
            flags,
            time: Duration::from_millis(if quick { 20 } else { 200 }),
            keys,
            repeats: if quick { 1 } else { 3 },
        })
    }

    pub fn fewest_keys(&self) -> usize {
        self.keys.first().copied().unwrap_or(0)
    }

    pub fn most_keys(&self) -> usize {
        self.keys.last().copied().unwrap_or(0)
    }
}

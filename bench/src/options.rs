//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "\
usage: in-process [--quick] [--rounds N] [--keys 10k,1m,10m] [--only CASE,..] [--json PATH]
cases: one, keyed, algorithms, memory, pauses, flood";

#[derive(Debug)]
pub struct Options {
    /// How often each contestant is measured; the median counts.
    pub rounds: usize,
    /// About how long one measurement takes.
    pub time: Duration,
    /// How many keys, in ascending order.
    pub keys: Vec<usize>,
    /// How often a pause is provoked; the least of the worst counts.
    pub repeats: usize,
    only: Vec<String>,
    pub json: Option<PathBuf>,
}

impl Options {
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut quick, mut rounds, mut keys, mut only, mut json) = (false, 5, None, vec![], None);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => quick = true,
                "--rounds" => rounds = number(&value()?)?,
                "--keys" => keys = Some(value()?),
                "--only" => only = value()?.split(',').map(str::to_owned).collect(),
                "--json" => json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument {arg}")),
            }
        }
        let keys = keys.as_deref().unwrap_or(if quick { "10k,100k" } else { "10k,1m,10m" });
        let mut keys = keys.split(',').map(number).collect::<Result<Vec<_>, _>>()?;
        keys.sort_unstable();
        Ok(Self {
            rounds: rounds.max(1),
            time: Duration::from_millis(if quick { 20 } else { 200 }),
            keys,
            repeats: if quick { 1 } else { 3 },
            only,
            json,
        })
    }

    pub fn runs(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == case)
    }

    pub fn fewest_keys(&self) -> usize {
        self.keys.first().copied().unwrap_or(0)
    }

    pub fn most_keys(&self) -> usize {
        self.keys.last().copied().unwrap_or(0)
    }
}

/// A number with an optional `k` or `m` behind it.
pub fn number(text: &str) -> Result<usize, String> {
    let (digits, scale) = match text.strip_suffix(['k', 'm']) {
        Some(digits) => (digits, if text.ends_with('k') { 1_000 } else { 1_000_000 }),
        None => (text, 1),
    };
    let number: usize = digits.parse().map_err(|_| format!("{text:?} is not a number"))?;
    Ok(number * scale)
}

//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "\
usage: redis [--quick] [--rounds N] [--only NAME,..] [--json PATH]
names: the questions spread, hot, cold; the contestants get, lua, cell, waterclock, waterclock-lease,
limitador, trypema, trypema-hybrid, flexible, rolling, ratelimiter, multi";

/// The questions `--only` may name; any other name is a contestant's.
const CASES: [&str; 3] = ["spread", "hot", "cold"];

#[derive(Debug)]
pub struct Options {
    /// How often each contestant has its turn; the median counts.
    pub rounds: usize,
    /// How long 64 callers ask in one turn.
    pub time: Duration,
    /// How many keys.
    pub keys: u64,
    cases: Vec<String>,
    contestants: Vec<String>,
    pub json: Option<PathBuf>,
}

impl Options {
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut quick, mut rounds, mut json) = (false, None, None);
        let (mut cases, mut contestants) = (vec![], vec![]);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => quick = true,
                "--rounds" => rounds = Some(crate::options::number(&value()?)?),
                "--only" => {
                    let names = value()?;
                    let names = names.split(',').map(str::to_owned);
                    (cases, contestants) = names.partition(|name| CASES.contains(&name.as_str()));
                }
                "--json" => json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument {arg}")),
            }
        }
        Ok(Self {
            rounds: rounds.unwrap_or(if quick { 1 } else { 5 }).max(1),
            time: Duration::from_millis(if quick { 200 } else { 1_000 }),
            keys: if quick { 1_000 } else { 10_000 },
            cases,
            contestants,
            json,
        })
    }

    pub fn asks(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|name| name == case)
    }

    pub fn runs(&self, contestant: &str) -> bool {
        self.contestants.is_empty() || self.contestants.iter().any(|name| name == contestant)
    }

    /// The first unknown name.
    pub fn unknown<'a>(&'a self, known: &[&str]) -> Option<&'a str> {
        self.contestants.iter().map(String::as_str).find(|name| !known.contains(name))
    }
}

//! The command line.

use std::path::PathBuf;
use std::time::Duration;

pub const USAGE: &str = "usage: [--quick] [--rounds N] [--only http,resp,grpc] [--json PATH]";

const CASES: [&str; 3] = ["http", "resp", "grpc"];

pub struct Options {
    /// How often each contestant has its turn; the median counts.
    pub rounds: usize,
    /// How long one measurement takes.
    pub time: Duration,
    cases: Vec<String>,
    pub json: Option<PathBuf>,
}

impl Options {
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut quick, mut rounds, mut cases, mut json) = (false, None, vec![], None);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--quick" => quick = true,
                "--rounds" => {
                    let text = value()?;
                    let number = text.parse::<usize>().ok().filter(|rounds| *rounds > 0);
                    rounds = Some(number.ok_or(format!("--rounds {text} is no number of rounds"))?);
                }
                "--only" => cases = value()?.split(',').map(str::to_owned).collect(),
                "--json" => json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument {arg}")),
            }
        }
        if let Some(unknown) = cases.iter().find(|case| !CASES.contains(&case.as_str())) {
            return Err(format!("no {unknown:?} among {CASES:?}"));
        }
        let rounds = rounds.unwrap_or(if quick { 1 } else { 5 });
        let time = Duration::from_millis(if quick { 200 } else { 1_000 });
        Ok(Self { rounds, time, cases, json })
    }

    pub fn asks(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|name| name == case)
    }
}

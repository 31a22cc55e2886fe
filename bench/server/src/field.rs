//! Contestants that take turns, and how each did.

use std::time::Duration;

use waterclock_bench::measure::median;
use waterclock_bench::remote::cores::Cores;
use waterclock_bench::report::Row;

use crate::Error;
use crate::contestant::Contestant;
use crate::measured::{Measured, medians};
use crate::process::Server;

/// No turn takes this long; one that does is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Plan {
    pub cores: Option<Cores>,
    pub rounds: usize,
    pub time: Duration,
}

/// What every turn of a contestant measured, in the same order; or why there is nothing.
pub struct Field {
    entrants: Vec<(String, Result<Vec<Measured>, String>)>,
}

impl Field {
    /// Runs all contestants in turn, round after round, each time with a new server.
    pub fn run<Asks>(
        contestants: Vec<Contestant<Asks>>,
        plan: &Plan,
        take: impl AsyncFn(&Server, &Asks) -> Result<Vec<Measured>, Error>,
    ) -> Self {
        let mut turns: Vec<Vec<Result<Vec<Measured>, Error>>> =
            contestants.iter().map(|_| vec![]).collect();
        for _ in 0..plan.rounds {
            for (contestant, turns) in contestants.iter().zip(&mut turns) {
                if let Ok(launch) = &contestant.launch {
                    let turn = Server::start(launch, plan.cores)
                        .and_then(|server| in_time(take(&server, &contestant.asks)));
                    turns.push(turn);
                }
            }
        }
        let entrants = contestants.into_iter().zip(turns).map(|(contestant, turns)| {
            let name = contestant.name;
            let outcome = match contestant.launch {
                Ok(_) => outcome(&name, turns),
                Err(absent) => Err(absent),
            };
            (name, outcome)
        });
        let field = Self { entrants: entrants.collect() };
        field.tell_disturbance();
        field
    }

    /// The `n`th measurement of a contestant, if there is one.
    pub fn of(&self, name: &str, n: usize) -> Option<&Measured> {
        let (_, measured) = self.entrants.iter().find(|(entrant, _)| entrant == name)?;
        measured.as_ref().ok()?.get(n)
    }

    /// How many times as much as another one's a number is; NaN if one of them did not run.
    pub fn ratio(&self, number: fn(&Measured) -> f64, n: usize, one: &str, other: &str) -> f64 {
        let number = |name| self.of(name, n).map_or(f64::NAN, number);
        number(one) / number(other)
    }

    /// The rows of the table; a contestant that did not run has a row with the reason.
    pub fn rows(&self, cells: impl Fn(&[Measured]) -> Vec<f64>) -> Vec<Row> {
        let row = |(name, measured): &(String, Result<Vec<Measured>, String>)| match measured {
            Ok(measured) => Row::new(name.clone(), cells(measured)),
            Err(why) => Row::absent(name.clone(), why.clone()),
        };
        self.entrants.iter().map(row).collect()
    }

    /// Rates and latencies need two quiet cores.
    fn tell_disturbance(&self) {
        let measured = self.entrants.iter().filter_map(|(_, measured)| measured.as_ref().ok());
        let shares: Vec<f64> = measured.flatten().map(|measured| measured.disturbed).collect();
        if !shares.is_empty() && median(shares.clone()) > 0.05 {
            let percent = median(shares) * 100.0;
            println!(
                "\n**Other processes kept these from their cores for {percent:.0} % of the time: \
                 rates and latencies below say little, processor times somewhat more.**"
            );
        }
    }
}

/// In a runtime of its own, which ends with it. One thread: there is one core for the client.
fn in_time<T>(turn: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let turn = async { tokio::time::timeout(PATIENCE, turn).await };
    runtime.block_on(turn).map_err(|_| "it did not come to an end")?
}

/// The medians of what succeeded, with a word on what did not; or why nothing did.
fn outcome(name: &str, turns: Vec<Result<Vec<Measured>, Error>>) -> Result<Vec<Measured>, String> {
    let rounds = turns.len();
    let (taken, failed): (Vec<_>, Vec<_>) = turns.into_iter().partition(Result::is_ok);
    let taken: Vec<Vec<Measured>> = taken.into_iter().flatten().collect();
    let why = failed.into_iter().find_map(Result::err).map(|error| error.to_string());
    let Some(first) = taken.first() else {
        return Err(format!("failed: {}", why.unwrap_or_default()));
    };
    if let Some(why) = why {
        println!("\n{name} failed in {} of {rounds} rounds: {why}", rounds - taken.len());
    }
    let nth = |n| taken.iter().filter_map(|turn| turn.get(n)).copied().collect::<Vec<_>>();
    Ok((0..first.len()).filter_map(|n| medians(&nth(n))).collect())
}

//! Contestants that took turns, and how each did.

use std::time::Duration;

use super::Error;
use super::contestant::{Contestant, Enter};
use super::turn::{self, Plan, Turn};
use crate::measure::median;

/// No turn takes this long; one that does is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Field {
    entrants: Vec<(Contestant, Result<Turn, String>)>,
}

impl Field {
    /// Runs all contestants in turn, round after round.
    pub fn run(contestants: Vec<Contestant>, port: u16, plan: &Plan, rounds: usize) -> Self {
        let mut turns: Vec<Vec<Result<Turn, String>>> = vec![vec![]; contestants.len()];
        for _ in 0..rounds {
            for (contestant, turns) in contestants.iter().zip(&mut turns) {
                if let Ok(enter) = &contestant.enter {
                    turns.push(take(enter, port, plan).map_err(|error| error.to_string()));
                }
            }
        }
        let entrants = contestants.into_iter().zip(turns);
        Self { entrants: entrants.map(|(entrant, turns)| outcome(entrant, turns)).collect() }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Contestant, Result<&Turn, &str>)> {
        self.entrants
            .iter()
            .map(|(contestant, turn)| (contestant, turn.as_ref().map_err(|why| &**why)))
    }

    /// Whether other processes took the cores: left alone, the slowest calls of most contestants
    /// take about twice as long as the usual ones.
    pub fn was_disturbed(&self) -> bool {
        let turns = self.entrants.iter().filter_map(|(_, turn)| turn.as_ref().ok());
        let tails: Vec<f64> = turns.map(|turn| turn.lone_p99 / turn.lone_p50).collect();
        !tails.is_empty() && median(tails) > 5.0
    }

    /// How one of them did, if it ran.
    pub fn of(&self, id: &str) -> Option<&Turn> {
        let (_, turn) = self.entrants.iter().find(|(contestant, _)| contestant.id == id)?;
        turn.as_ref().ok()
    }
}

/// Takes a turn in a runtime of its own, which ends with it: not every contestant stops working in
/// the background when it is dropped. One thread: there is one core for it.
fn take(enter: &Enter, port: u16, plan: &Plan) -> Result<Turn, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let turn = async { tokio::time::timeout(PATIENCE, turn::take(enter, port, plan)).await };
    runtime.block_on(turn).map_err(|_| "it did not come to an end")?
}

/// The medians of what succeeded, with a word on what did not; or why nothing did.
fn outcome(
    contestant: Contestant,
    turns: Vec<Result<Turn, String>>,
) -> (Contestant, Result<Turn, String>) {
    let rounds = turns.len();
    let (taken, failed): (Vec<_>, Vec<_>) = turns.into_iter().partition(Result::is_ok);
    let taken: Vec<Turn> = taken.into_iter().flatten().collect();
    let why = failed.into_iter().find_map(Result::err);
    let turn = match (turn::medians(&taken), &contestant.enter, why) {
        (_, Err(absent), _) => Err(absent.clone()),
        (None, _, why) => Err(format!("failed: {}", why.unwrap_or_default())),
        (Some(turn), _, None) => Ok(turn),
        (Some(turn), _, Some(why)) => {
            let name = contestant.name;
            println!("\n{name} failed in {} of {rounds} rounds: {why}.", rounds - taken.len());
            Ok(turn)
        }
    };
    (contestant, turn)
}

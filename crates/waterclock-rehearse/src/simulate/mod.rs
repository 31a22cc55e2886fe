//! Simulation: generated or recorded traffic meets several policies, side by side.

mod arrivals;
mod contenders;
mod play;
mod report;
mod traffic;

pub use self::arrivals::Shape;
pub use self::contenders::{Contender, Rate, limits_of_words, split_limits};
pub use self::traffic::{MadeUp, Traffic};

use serde_json::Value;
use waterclock::StoreError;

use self::play::{Play, Played};
use crate::Error;

/// What became of the same traffic under each of several policies.
pub struct Simulation {
    /// One line that describes the traffic.
    lead: String,
    /// The same in numbers.
    facts: Value,
    /// The key whose level is drawn.
    watched: String,
    /// From when to when, in virtual time.
    from_us: u64,
    until_us: u64,
    played: Vec<(Contender, Played)>,
}

impl Simulation {
    /// Plays the traffic once for each policy. A refused client retries up to `retries` times,
    /// each time after the advised wait.
    pub fn run(
        contenders: Vec<Contender>,
        traffic: &Traffic,
        retries: u32,
    ) -> Result<Simulation, Error> {
        let (from_us, until_us) = traffic.span_us;
        let window = contenders::pace(&contenders)?.per.duration();
        let play = |(contender, callers): (Contender, &usize)| {
            let callers = &traffic.callers[*callers];
            let play = Play { callers, tiers: &traffic.tiers, from_us, until_us, retries };
            let played = play.run(&contender.config, &traffic.arrivals, window)?;
            Ok((contender, played))
        };
        let played = contenders.into_iter().zip(&traffic.callers_of);
        let played = played.map(play).collect::<Result<_, Error>>()?;
        let watched = match &*traffic.callers {
            [only] => only.watched_name().to_owned(),
            _ => "the busiest key of each".to_owned(),
        };
        let (lead, facts) = (traffic.lead.clone(), traffic.facts.clone());
        Ok(Simulation { lead, facts, watched, from_us, until_us, played })
    }
}

/// An error if a policy cannot be simulated, because only reservations use it.
fn refuse_concurrency(contenders: &[Contender]) -> Result<(), Error> {
    match contenders.iter().find(|contender| contender.config.policy().reserves_only()) {
        Some(contender) => Err(StoreError::reserves_only(contender.config.name()).into()),
        None => Ok(()),
    }
}

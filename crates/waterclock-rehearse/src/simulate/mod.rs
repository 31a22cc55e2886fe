//! Simulation: generated or recorded traffic meets several policies, side by side.

mod arrivals;
mod contenders;
mod most;
mod play;
mod report;
mod retries;
mod sentence;
mod traffic;

pub use self::arrivals::Shape;
pub use self::contenders::{Contender, Rate, limits_of_words, split_limits};
pub use self::retries::{Retries, RetryAfter};
pub use self::traffic::{MadeUp, Traffic};

use serde_json::Value;
use waterclock::StoreError;
use waterclock_config::Micros;

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
    /// The same with clients that retry at other times, if clients retry.
    others: Option<(RetryAfter, Vec<Played>)>,
    retries: Retries,
}

impl Simulation {
    /// Plays the traffic once for each policy. Where refused clients retry, it is played once more with clients that
    /// retry at other times: every `blind_backoff` if these honour the advised wait, and the other way round.
    pub fn run(
        contenders: Vec<Contender>,
        traffic: &Traffic,
        retries: Retries,
        blind_backoff: Micros,
    ) -> Result<Simulation, Error> {
        let (from_us, until_us) = traffic.span_us;
        let window = contenders::pace(&contenders)?.per.duration();
        let play_all = |retries: Retries| {
            let play = |(contender, callers): (&Contender, &usize)| {
                let callers = &traffic.callers[*callers];
                let play = Play { callers, tiers: &traffic.tiers, from_us, until_us, retries };
                Ok(play.run(&contender.config, &traffic.arrivals, window)?)
            };
            let contenders = contenders.iter().zip(&traffic.callers_of);
            contenders.map(play).collect::<Result<Vec<Played>, Error>>()
        };
        let played = play_all(retries)?;
        let others = if retries.most > 0 {
            let after = match retries.after {
                RetryAfter::Honour => RetryAfter::Ignore { backoff: blind_backoff },
                RetryAfter::Ignore { .. } => RetryAfter::Honour,
            };
            Some((after, play_all(Retries { after, ..retries })?))
        } else {
            None
        };
        let played = contenders.into_iter().zip(played).collect();
        let watched = match &*traffic.callers {
            [only] => only.watched_name().to_owned(),
            _ => "the busiest key of each".to_owned(),
        };
        let (lead, facts) = (traffic.lead.clone(), traffic.facts.clone());
        Ok(Simulation { lead, facts, watched, from_us, until_us, played, others, retries })
    }
}

/// An error if a policy cannot be simulated, because only reservations use it.
fn refuse_concurrency(contenders: &[Contender]) -> Result<(), Error> {
    match contenders.iter().find(|contender| contender.config.policy().reserves_only()) {
        Some(contender) => Err(StoreError::reserves_only(contender.config.name()).into()),
        None => Ok(()),
    }
}

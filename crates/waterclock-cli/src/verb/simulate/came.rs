//! The traffic that comes: made up, or as somebody recorded it.

use std::path::Path;

use clap::ValueEnum;
use waterclock_config::{Micros, PolicyConfig, did_you_mean};

use super::Simulate;
use super::arrivals::{Arrival, MOST, Shape, Traffic};
use super::callers::Callers;
use super::recorded::Recorded;
use super::subjects::{self, Subject};
use crate::failure::Failure;
use crate::report::counted;

/// Traffic that is there.
pub(super) struct Came {
    /// In one line.
    pub(super) lead: String,
    /// As each kind of key tells them apart.
    pub(super) callers: Vec<Callers>,
    /// For each subject, which of these it means.
    pub(super) kinds: Vec<usize>,
    pub(super) tiers: Vec<String>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) span_us: (u64, u64),
}

impl Simulate {
    /// Requests of some shape.
    pub(super) fn made_up(
        &self,
        shape: Shape,
        units: u64,
        per: Micros,
        subjects: &[Subject],
    ) -> Result<Came, Failure> {
        let (keys, seed) = (self.keys.unwrap_or(1), self.seed.unwrap_or(1));
        let (units, each) = match &self.rate {
            Some(text) => PolicyConfig::of_shorthand(text)
                .ok()
                .and_then(|spec| spec.limits.first().and_then(subjects::rate))
                .ok_or_else(|| format!("--rate must be a rate such as \"15/s\" or \"100 per minute\"; found {text:?}"))?,
            None => (units.saturating_mul(u64::from(keys)).saturating_mul(3).div_ceil(2), per),
        };
        let duration = match &self.duration {
            Some(text) => Micros::parse(text).map_err(|rest| format!("--for {rest}"))?,
            None => Micros(per.0.saturating_mul(10).min(Micros::MAX.0)),
        };
        let traffic = Traffic {
            shape,
            rate: units as f64 / each.duration().as_secs_f64(),
            seconds: duration.duration().as_secs_f64(),
            keys: usize::try_from(keys).unwrap_or(usize::MAX),
            cost: self.reading.cost_of_nothing_read()?,
            seed,
        };
        let expected = traffic.rate * traffic.seconds;
        if expected > MOST as f64 {
            return Err(format!(
                "{units} per {each} for {duration} are {expected:.0} requests, more than {MOST}; shorten --for or lower --rate"
            )
            .into());
        }
        let (arrivals, places) = traffic.arrivals();
        if arrivals.is_empty() {
            return Err(format!(
                "no request comes within {duration}; lengthen --for or raise --rate"
            )
            .into());
        }
        let lead = format!(
            "{} by {}, {}, {units} per {each} on average for {duration}{}",
            counted(arrivals.len(), "request"),
            counted(traffic.keys, "key"),
            shape.word(),
            if seed == 1 { String::new() } else { format!(", seed {seed}") }
        );
        let names = (1..=keys).map(|number| format!("key-{number}")).collect();
        let callers = vec![Callers { names, places, watched: 0 }];
        let (kinds, tiers) = (vec![0; subjects.len()], Vec::new());
        Ok(Came { lead, callers, kinds, tiers, arrivals, span_us: (0, duration.0) })
    }

    /// Requests as somebody recorded them.
    pub(super) fn read(&self, subjects: &[Subject]) -> Result<Came, Failure> {
        let path = Path::new(&self.arrivals);
        let of_made_up = [
            ("--rate", self.rate.is_some()),
            ("--for", self.duration.is_some()),
            ("--keys", self.keys.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        if let Some((flag, _)) = of_made_up.iter().find(|(_, is_given)| *is_given) {
            return Err(format!("{flag} is about made-up traffic; a file has its own").into());
        }
        if path.as_os_str() != "-" && !path.exists() {
            let known = Shape::value_variants().iter().map(|shape| shape.word());
            let list = known.clone().collect::<Vec<&str>>().join(", ");
            let (text, hint) = (&self.arrivals, did_you_mean(&self.arrivals, known));
            return Err(format!("--arrivals must be {list} or a file; found {text:?}{hint}").into());
        }
        if subjects.is_empty() {
            return Err("there is nothing to simulate".to_owned().into());
        }
        let all: Vec<&PolicyConfig> = subjects.iter().map(|subject| &subject.spec).collect();
        let (firsts, kinds) = kinds_of_keys(subjects, self.reading.has_keys_by_policy());
        let recorded = Recorded::read(self.reading.open(Some(path), &firsts, &all)?, firsts.len())?;
        let mut keys: Vec<String> =
            recorded.callers.iter().map(|callers| counted(callers.names.len(), "key")).collect();
        keys.dedup();
        let lead = format!(
            "{} by {}, as in {}",
            counted(recorded.arrivals.len(), "request"),
            keys.join(" or "),
            self.arrivals
        );
        let span_us = recorded.span_us();
        let Recorded { callers, tiers, arrivals } = recorded;
        Ok(Came { lead, callers, kinds, tiers: tiers.names, arrivals, span_us })
    }
}

/// The first policy of each kind of key, and for each subject the place of its kind among them.
fn kinds_of_keys(subjects: &[Subject], has_several: bool) -> (Vec<&PolicyConfig>, Vec<usize>) {
    let mut firsts: Vec<&PolicyConfig> = Vec::new();
    let mut kinds = Vec::with_capacity(subjects.len());
    for Subject { spec, .. } in subjects {
        let known = firsts.iter().position(|first| !has_several || first.key == spec.key);
        kinds.push(known.unwrap_or(firsts.len()));
        if known.is_none() {
            firsts.push(spec);
        }
    }
    (firsts, kinds)
}

//! The smallest numbers of a limit that would have refused nobody, or hardly anybody.

mod knob;
mod play;
mod sample;

pub use self::sample::{Extent, Sample};

use waterclock_config::{LimitSpec, Micros, PolicyConfig, policy_of};

use self::knob::Knob;
use self::play::Demand;
use waterclock_config::english::in_short;

/// What would have been enough for one limit, were it the only one.
pub struct Smallest {
    pub limit: String,
    /// Nobody is refused.
    pub nobody: Option<LimitSpec>,
    /// At most one check in a hundred is.
    pub one_percent: Option<LimitSpec>,
    /// What no number of the limit's changes.
    min_interval: Option<Micros>,
}

impl Smallest {
    /// What was found, or why nothing was.
    pub fn words(&self, found: Option<&LimitSpec>) -> String {
        match (found, self.min_interval) {
            (Some(limit), _) => in_short(limit),
            (None, Some(gap)) => format!("none: its min_interval of {gap} alone refuses more"),
            (None, None) => "none may be as large".to_owned(),
        }
    }
}

/// For each limit of the policy whose numbers can be turned.
pub fn smallest(spec: &PolicyConfig, sample: Sample) -> Vec<Smallest> {
    let demand = Demand::new(sample);
    if demand.checks() == 0 {
        return Vec::new();
    }
    let knobs: Vec<(&LimitSpec, Knob)> = spec
        .limits
        .iter()
        .filter_map(|limit| Some((limit, Knob::of(&limit.algorithm, demand.span_us())?)))
        .collect();
    let demand = &demand;
    // Each answer takes many plays of the same traffic; they do not depend on each other.
    std::thread::scope(|scope| {
        let searches: Vec<_> = knobs
            .iter()
            .map(|(limit, knob)| {
                let search = move |most| scope.spawn(move || turn(spec, limit, knob, demand, most));
                (limit, search(0), search(demand.checks() / 100))
            })
            .collect();
        let found =
            |(limit, nobody, one_percent): (&&LimitSpec, Search<'_>, Search<'_>)| Smallest {
                limit: limit.name.clone(),
                nobody: nobody.join().ok().flatten(),
                one_percent: one_percent.join().ok().flatten(),
                min_interval: limit.min_interval,
            };
        searches.into_iter().map(found).collect()
    })
}

type Search<'scope> = std::thread::ScopedJoinHandle<'scope, Option<LimitSpec>>;

/// The least turn at which at most so many checks are refused.
fn turn(
    spec: &PolicyConfig,
    limit: &LimitSpec,
    knob: &Knob,
    demand: &Demand,
    most: u64,
) -> Option<LimitSpec> {
    let turned = |turn: u64| {
        Some(LimitSpec { algorithm: knob.turned(turn)?, shadow: false, ..limit.clone() })
    };
    let suffices = |turn: u64| -> Option<bool> {
        let limit = turned(turn)?;
        let fits = if limit.min_interval.is_some() { 0 } else { knob::fits(&limit.algorithm) };
        let policy = policy_of(&spec.name, &[limit], spec.mode, false).ok()?;
        Some(demand.refuses_at_most(&policy, most, fits))
    };
    // Twice as far until it suffices, then halfway until it is exact.
    let mut enough = 1;
    let mut too_little = 0;
    while !suffices(enough)? {
        if enough >= knob.most() {
            return None;
        }
        (too_little, enough) = (enough, enough.saturating_mul(2).min(knob.most()));
    }
    while enough - too_little > 1 {
        let middle = too_little + (enough - too_little) / 2;
        if suffices(middle)? { enough = middle } else { too_little = middle }
    }
    turned(enough)
}

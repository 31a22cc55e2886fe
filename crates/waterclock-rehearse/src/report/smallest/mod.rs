//! The smallest numbers of a limit that would have refused no check, or hardly any.

mod demand;

pub(super) use self::demand::{Extent, Sample};

use waterclock::MAX_UNITS;
use waterclock_config::english::in_short;
use waterclock_config::{AlgorithmSpec, LimitSpec, Micros, PolicyConfig, policy_of};

use self::demand::Demand;

/// Numbers that would have been enough for one limit, were it the only one.
pub(super) struct Smallest {
    pub(super) limit: String,
    /// No check is refused.
    pub(super) none: Option<LimitSpec>,
    /// At most one check in a hundred is refused.
    pub(super) one_percent: Option<LimitSpec>,
    /// It refuses whatever the other numbers are.
    min_interval: Option<Micros>,
}

impl Smallest {
    /// What was found, or why nothing was.
    pub(super) fn words(&self, found: Option<&LimitSpec>) -> String {
        match (found, self.min_interval) {
            (Some(limit), _) => in_short(limit),
            (None, Some(gap)) => format!("none: its min_interval of {gap} alone refuses more"),
            (None, None) => "none: even the largest refuses more".to_owned(),
        }
    }
}

/// For each limit of the policy whose numbers can be varied.
pub(super) fn smallest(policy: &PolicyConfig, sample: Sample) -> Vec<Smallest> {
    let demand = Demand::new(sample);
    if demand.checks() == 0 {
        return Vec::new();
    }
    let knobs: Vec<(&LimitSpec, Knob)> = policy
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
                let start =
                    move |most| scope.spawn(move || search(policy, limit, knob, demand, most));
                (limit, start(0), start(demand.checks() / 100))
            })
            .collect();
        let found = |(limit, none, one_percent): (&&LimitSpec, Search<'_>, Search<'_>)| Smallest {
            limit: limit.name.clone(),
            none: none.join().ok().flatten(),
            one_percent: one_percent.join().ok().flatten(),
            min_interval: limit.min_interval,
        };
        searches.into_iter().map(found).collect()
    })
}

type Search<'scope> = std::thread::ScopedJoinHandle<'scope, Option<LimitSpec>>;

/// The smallest numbers at which at most so many checks are refused.
fn search(
    policy: &PolicyConfig,
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
        let fits = if limit.min_interval.is_some() { 0 } else { fits(&limit.algorithm) };
        let varied = policy_of(&policy.name, &[limit], policy.mode, false).ok()?;
        Some(demand.refuses_at_most(&varied, most, fits))
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

/// The one number of an algorithm that is varied, the others in proportion. A larger turn admits more.
struct Knob {
    algorithm: AlgorithmSpec,
    span_us: u64,
}

impl Knob {
    /// `None` for algorithms that do not limit an amount, and for slots, which are closed half of the time however many
    /// there are.
    fn of(algorithm: &AlgorithmSpec, span_us: u64) -> Option<Knob> {
        let has_none = matches!(
            algorithm,
            AlgorithmSpec::ErrorRate { .. }
                | AlgorithmSpec::Concurrency { .. }
                | AlgorithmSpec::EvenSlots { .. }
        );
        (!has_none).then(|| Knob { algorithm: algorithm.clone(), span_us })
    }

    /// How far it can be turned.
    fn most(&self) -> u64 {
        match self.algorithm {
            // The shortest interval there is.
            AlgorithmSpec::MinInterval { .. } => self.span_us.max(1),
            _ => MAX_UNITS,
        }
    }

    /// `None` where it cannot be turned so far.
    fn turned(&self, turn: u64) -> Option<AlgorithmSpec> {
        let mut turned = self.algorithm.clone();
        match &mut turned {
            AlgorithmSpec::Gcra { limit, capacity, .. } => {
                *capacity = in_proportion(*capacity, turn, *limit)?;
                *limit = turn;
            }
            AlgorithmSpec::LeakyBucket { capacity, drip, .. } => {
                *drip = in_proportion(*drip, turn, *capacity)?;
                *capacity = turn;
            }
            AlgorithmSpec::FixedWindow { limit, .. }
            | AlgorithmSpec::SlidingWindow { limit, .. }
            | AlgorithmSpec::RollingWindow { limit, .. }
            | AlgorithmSpec::Quota { limit, .. } => *limit = turn,
            // The shorter, the more.
            AlgorithmSpec::MinInterval { every } => {
                *every = Micros((self.most() + 1).saturating_sub(turn).max(1));
            }
            AlgorithmSpec::EvenSlots { .. }
            | AlgorithmSpec::ErrorRate { .. }
            | AlgorithmSpec::Concurrency { .. } => return None,
        }
        Some(turned)
    }
}

fn in_proportion(number: u64, turn: u64, of: u64) -> Option<u64> {
    let scaled = (u128::from(number) * u128::from(turn)).div_ceil(u128::from(of.max(1)));
    u64::try_from(scaled.max(1)).ok()
}

/// A key that asks for no more units than this in all is never refused.
fn fits(algorithm: &AlgorithmSpec) -> u64 {
    match algorithm {
        AlgorithmSpec::Gcra { capacity, .. } | AlgorithmSpec::LeakyBucket { capacity, .. } => {
            *capacity
        }
        AlgorithmSpec::FixedWindow { limit, .. }
        | AlgorithmSpec::SlidingWindow { limit, .. }
        | AlgorithmSpec::RollingWindow { limit, .. } => *limit,
        _ => 0,
    }
}

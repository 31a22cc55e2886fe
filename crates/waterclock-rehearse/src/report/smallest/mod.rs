//! The smallest numbers of a limit that would have refused no check, or hardly any.

mod demand;

pub(super) use self::demand::{Extent, Sample};

use std::time::Duration;

use waterclock::{Limit, MAX_UNITS, MinInterval, Policy};
use waterclock_config::english::in_short;
use waterclock_config::{Micros, PolicyConfig};

use self::demand::Demand;

/// Numbers that would have been enough for one limit, were it the only one.
pub(super) struct Smallest {
    pub(super) limit: String,
    /// No check is refused.
    pub(super) none: Option<Limit>,
    /// At most one check in a hundred is refused.
    pub(super) one_percent: Option<Limit>,
    /// It refuses whatever the other numbers are.
    min_interval: Option<Micros>,
}

impl Smallest {
    /// What was found, or why nothing was.
    pub(super) fn words(&self, found: Option<&Limit>) -> String {
        match (found, self.min_interval) {
            (Some(limit), _) => in_short(limit),
            (None, Some(gap)) => {
                format!("none: its min_interval of {} alone refuses more", gap.in_words())
            }
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
    let knobs: Vec<(&Limit, Knob)> = policy
        .limits()
        .iter()
        .filter_map(|limit| Some((limit, Knob::of(limit, demand.span_us())?)))
        .collect();
    let demand = &demand;
    // Each answer takes many plays of the same traffic; they do not depend on each other.
    std::thread::scope(|scope| {
        let searches: Vec<_> = knobs
            .iter()
            .map(|(limit, knob)| {
                let start = move |most| scope.spawn(move || search(policy, knob, demand, most));
                (limit, start(0), start(demand.checks() / 100))
            })
            .collect();
        let found = |(limit, none, one_percent): (&&Limit, Search<'_>, Search<'_>)| Smallest {
            limit: limit.name().to_owned(),
            none: none.join().ok().flatten(),
            one_percent: one_percent.join().ok().flatten(),
            min_interval: limit.min_interval().map(Micros::from),
        };
        searches.into_iter().map(found).collect()
    })
}

type Search<'scope> = std::thread::ScopedJoinHandle<'scope, Option<Limit>>;

/// The smallest numbers at which at most so many checks are refused.
fn search(config: &PolicyConfig, knob: &Knob, demand: &Demand, most: u64) -> Option<Limit> {
    let mode = config.policy().mode();
    let suffices = |turn: u64| -> Option<bool> {
        let limit = knob.turned(turn)?;
        let never_refuses = limit.never_refuses();
        let policy = Policy::new(config.name(), [limit]).and_then(|policy| policy.with_mode(mode));
        Some(demand.refuses_at_most(&policy.ok()?, most, never_refuses))
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
    knob.turned(enough)
}

/// The one number of a limit that is varied, the others in proportion. A larger turn admits more.
struct Knob {
    limit: Limit,
    span_us: u64,
}

impl Knob {
    /// `None` for limits that do not bound an amount (error-rate, concurrency), and for even slots, which are closed
    /// half of the time however many there are.
    fn of(limit: &Limit, span_us: u64) -> Option<Knob> {
        let counts_units = limit.max_cost().is_some() && limit.lease().is_none();
        let has_one = counts_units || limit.every().is_some();
        has_one.then(|| Knob { limit: limit.clone().with_shadow(false), span_us })
    }

    /// How far it can be turned.
    fn most(&self) -> u64 {
        // Up to the shortest interval there is.
        if self.counts_units() { MAX_UNITS } else { self.span_us.max(1) }
    }

    /// `None` where it cannot be turned so far.
    fn turned(&self, turn: u64) -> Option<Limit> {
        if self.counts_units() {
            return self.limit.with_limit(turn).ok();
        }
        // A shorter interval admits more.
        let every = Duration::from_micros((self.most() + 1).saturating_sub(turn).max(1));
        let turned = Limit::from(MinInterval::new(every).ok()?);
        let turned = turned.with_name(self.limit.name()).with_unit(self.limit.unit());
        match self.limit.min_interval() {
            Some(gap) => turned.with_min_interval(gap).ok(),
            None => Some(turned),
        }
    }

    fn counts_units(&self) -> bool {
        self.limit.max_cost().is_some()
    }
}

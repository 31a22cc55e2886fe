//! The traffic of a simulation: made up, or recorded in a trace or a log.

use std::collections::HashMap;

use serde_json::{Value, json};
use waterclock::Cost;
use waterclock_config::{Micros, PolicyConfig};

use super::arrivals::{Arrival, Arrivals, MOST, Shape};
use super::contenders::{Contender, Rate, pace};
use crate::report::counted;
use crate::trace::{Input, Op, Reading, Trace};
use crate::{Error, Note};

/// Requests in the order of time, and which keys they have.
pub struct Traffic {
    /// One line that describes it.
    pub(super) lead: String,
    /// The same in numbers.
    pub(super) facts: Value,
    /// The keys, once for each way in which policies form them.
    pub(super) callers: Vec<Callers>,
    /// For each policy, the index of its callers.
    pub(super) callers_of: Vec<usize>,
    pub(super) tiers: Vec<String>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) span_us: (u64, u64),
    notes: Vec<Note>,
}

/// Traffic to be made up. The same seed gives the same traffic.
#[derive(Clone, Debug)]
pub struct MadeUp {
    /// How requests come over time.
    pub shape: Shape,
    /// How many come on average; none for half as many again as the first policy admits, for each key.
    pub rate: Option<Rate>,
    /// For how long; none for ten of the first policy's periods.
    pub duration: Option<Micros>,
    /// How many keys there are; the n-th asks 1/n as often as the first.
    pub keys: u32,
    /// What each request costs; none for the usual cost.
    pub cost: Option<Cost>,
    /// Other traffic of the same kind.
    pub seed: u64,
}

impl Traffic {
    /// Makes up traffic for these policies.
    pub fn make_up(asked: &MadeUp, contenders: &[Contender]) -> Result<Traffic, Error> {
        let &MadeUp { shape, keys, seed, .. } = asked;
        let pace = pace(contenders)?;
        let usual = || {
            let units = pace.units.saturating_mul(u64::from(keys)).saturating_mul(3).div_ceil(2);
            Rate { units, per: pace.per }
        };
        let Rate { units, per } = asked.rate.unwrap_or_else(usual);
        let longest = || Micros(pace.per.0.saturating_mul(10).min(Micros::MAX.0));
        let duration = asked.duration.unwrap_or_else(longest);
        let traffic = Arrivals {
            shape,
            rate: units as f64 / per.duration().as_secs_f64(),
            seconds: duration.duration().as_secs_f64(),
            keys: usize::try_from(keys).unwrap_or(usize::MAX),
            cost: asked.cost.clone(),
            seed,
        };
        let expected = traffic.rate * traffic.seconds;
        let mut facts = json!({
            "shape": shape.name(), "keys": keys, "seed": seed,
            "rate": { "units": units, "per_us": per.0 }, "duration_us": duration.0,
        });
        let (per, span) = (per.in_words(), duration.in_words());
        if expected > MOST as f64 {
            return Err(format!(
                "{units} per {per} for {span} are {expected:.0} requests, more than {MOST}; shorten --for or lower --rate"
            )
            .into());
        }
        let (arrivals, places) = traffic.make();
        if arrivals.is_empty() {
            return Err(
                format!("no request comes within {span}; lengthen --for or raise --rate").into()
            );
        }
        let lead = format!(
            "{} by {}, {}, {units} per {per} on average for {span}{}",
            counted(arrivals.len(), "request"),
            counted(traffic.keys, "key"),
            shape.name(),
            if seed == 1 { String::new() } else { format!(", seed {seed}") }
        );
        facts["requests"] = json!(arrivals.len());
        let names = (1..=keys).map(|number| format!("key-{number}")).collect();
        Ok(Traffic {
            lead,
            facts,
            callers: vec![Callers { names, places, watched: 0 }],
            callers_of: vec![0; contenders.len()],
            tiers: Vec::new(),
            arrivals,
            span_us: (0, duration.0),
            notes: Vec::new(),
        })
    }

    /// Reads recorded traffic, all of it: it is played once for each policy. `name` describes it.
    pub fn read(
        name: &str,
        reading: &Reading,
        input: Input,
        contenders: &[Contender],
    ) -> Result<Traffic, Error> {
        let all: Vec<&PolicyConfig> =
            contenders.iter().map(|contender| &contender.config).collect();
        let (reading, input) = reading.recognise(input)?;
        let (firsts, callers_of) = ways_to_form_keys(&all, reading.has_keys_by_policy());
        let trace = reading.open(input, &firsts, &all)?;
        let mut traffic = Traffic::record(trace, firsts.len())?;
        let mut keys: Vec<String> =
            traffic.callers.iter().map(|callers| counted(callers.names.len(), "key")).collect();
        keys.dedup();
        let requests = counted(traffic.arrivals.len(), "request");
        traffic.lead = format!("{requests} by {}, as in {name}", keys.join(" or "));
        let keys: Vec<usize> = traffic.callers.iter().map(|callers| callers.names.len()).collect();
        let requests = traffic.arrivals.len();
        traffic.facts = json!({ "source": name, "requests": requests, "keys": keys.first() });
        traffic.callers_of = callers_of;
        Ok(traffic)
    }

    fn record(mut trace: Trace, ways: usize) -> Result<Traffic, Error> {
        let (mut arrivals, mut tiers) = (Vec::new(), Names::default());
        let mut keys: Vec<(Names, Vec<usize>)> = Vec::new();
        keys.resize_with(ways, Default::default);
        while let Some(event) = trace.next_event()? {
            if event.op != Op::Check {
                return Err(
                    "only checks can be simulated; `waterclock replay` plays all of a trace".into(),
                );
            }
            for (way, (names, places)) in keys.iter_mut().enumerate() {
                places.push(names.place(&event.under(way).key));
            }
            let tier = event.tier.as_deref().map(|tier| tiers.place(tier));
            let (cost, factor) = (event.cost.clone(), event.factor);
            arrivals.push(Arrival { t_us: event.t_us, cost, tier, factor });
            if arrivals.len() > MOST {
                return Err(format!(
                    "at most {MOST} requests can be simulated; `waterclock replay` takes any number"
                )
                .into());
            }
        }
        let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
            return Err("there is no request to simulate".into());
        };
        Ok(Traffic {
            lead: String::new(),
            facts: Value::Null,
            callers: keys.into_iter().map(|(names, places)| Callers::new(names, places)).collect(),
            callers_of: Vec::new(),
            tiers: tiers.names,
            span_us: (first.t_us, last.t_us + 1),
            arrivals,
            notes: trace.notes(),
        })
    }

    /// Notes about recorded traffic, such as how many lines were skipped.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// The keys of all requests, as policies that form their keys of the same fields see them.
pub(super) struct Callers {
    pub(super) names: Vec<String>,
    /// For each request, an index into the names.
    pub(super) places: Vec<usize>,
    /// The key whose level is drawn.
    watched: usize,
}

impl Callers {
    /// The key that asks most often is watched.
    fn new(keys: Names, places: Vec<usize>) -> Callers {
        let mut counts = vec![0_u64; keys.names.len()];
        places.iter().for_each(|place| counts[*place] += 1);
        let most = counts.iter().max().copied();
        let watched = counts.iter().position(|count| Some(*count) == most).unwrap_or(0);
        Callers { names: keys.names, places, watched }
    }

    pub(super) fn watched_name(&self) -> &str {
        self.names.get(self.watched).map_or("", String::as_str)
    }
}

/// Names that are stored once.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Names {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        self.places.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }
}

/// The first policy of each way to form keys, and for each policy the index of its way.
fn ways_to_form_keys<'p>(
    policies: &[&'p PolicyConfig],
    has_several: bool,
) -> (Vec<&'p PolicyConfig>, Vec<usize>) {
    let mut firsts: Vec<&PolicyConfig> = Vec::new();
    let mut ways = Vec::with_capacity(policies.len());
    for policy in policies {
        let known = firsts.iter().position(|first| !has_several || first.key == policy.key);
        ways.push(known.unwrap_or(firsts.len()));
        if known.is_none() {
            firsts.push(policy);
        }
    }
    (firsts, ways)
}

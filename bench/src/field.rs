//! Contestants that were timed together, and how they compare.

use std::time::Duration;

use crate::contestant::{Kind, Run};
use crate::measure::{self, Timing};
use crate::options::Options;
use crate::report::Row;

pub const COLUMNS: &[&str] = &[
    "ns, 1 thread",
    "× best exact peer",
    "M/s, 2 threads",
    "× best exact peer",
    "scaling",
    "M/s by wall",
];

pub struct Field {
    entrants: Vec<(&'static str, Kind, Timing)>,
}

impl Field {
    /// Times them all, interleaved. `admits`: every decision must admit.
    pub fn time<K: Sync>(
        entrants: Vec<(&'static str, Kind, Run<K>)>,
        keys: &[K],
        options: &Options,
        admits: bool,
    ) -> Self {
        let (labels, runs): (Vec<_>, Vec<_>) =
            entrants.into_iter().map(|(name, kind, run)| ((name, kind), run)).unzip();
        let timings = measure::rounds(&runs, keys, options.time, options.flags.rounds, admits);
        let entrants = labels.into_iter().zip(timings);
        Self { entrants: entrants.map(|((name, kind), timing)| (name, kind, timing)).collect() }
    }

    /// The timing of one of them by its name.
    pub fn of(&self, name: &str) -> Timing {
        let entrant = self.entrants.iter().find(|entrant| entrant.0 == name);
        entrant.unwrap_or_else(|| panic!("{name} was not timed")).2
    }

    /// The least time and the highest rate of any exact peer, as if one had both.
    pub fn best_peer(&self) -> Timing {
        let peers = self.entrants.iter().filter(|entrant| entrant.1 == Kind::Peer);
        let none = Timing { lone: f64::NAN, pair: f64::NAN, pair_wall: f64::NAN };
        peers.fold(none, |best, (_, _, timing)| Timing {
            lone: best.lone.min(timing.lone),
            pair: best.pair.max(timing.pair),
            pair_wall: best.pair_wall.max(timing.pair_wall),
        })
    }

    /// Whether other processes kept the two threads from running at once.
    pub fn was_disturbed(&self) -> bool {
        measure::median(self.entrants.iter().map(|entrant| entrant.2.overlap()).collect()) < 0.8
    }

    pub fn rows(&self) -> Vec<Row> {
        let best = self.best_peer();
        let row = |(name, _, t): &(&'static str, Kind, Timing)| {
            let ratios = (best.lone / t.lone, t.pair / best.pair);
            Row::new(*name, [t.lone, ratios.0, t.pair, ratios.1, t.scaling(), t.pair_wall])
        };
        self.entrants.iter().map(row).collect()
    }
}

/// How well this machine lets two threads run at once: arithmetic that shares nothing.
pub fn machine_scaling(options: &Options) -> f64 {
    let spin: Run<()> = Box::new(|keys| {
        let mut random = fastrand::Rng::with_seed(1);
        keys.iter().filter(|()| random.u64(..) > 0).count()
    });
    let time = options.time.max(Duration::from_millis(50));
    measure::rounds(&[spin], &[(); 1 << 16], time, options.flags.rounds, false)[0].scaling()
}

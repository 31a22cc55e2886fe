//! Made-up arrivals: shapes of traffic, the same for the same seed.

use std::f64::consts::TAU;

use fastrand::Rng;
use waterclock::{Cost, Factor};

/// The most requests that are simulated.
pub(super) const MOST: usize = 5_000_000;

/// How requests come over time, at the same rate on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// Evenly.
    Steady,
    /// Independently of each other.
    Poisson,
    /// Four fifths in bursts at random times.
    Bursty,
    /// As over a day: least at both ends, most in the middle.
    Diurnal,
    /// A thundering herd: half of the requests come at a few instants, all at once.
    Herd,
}

impl Shape {
    /// All of them.
    pub const ALL: [Shape; 5] =
        [Shape::Steady, Shape::Poisson, Shape::Bursty, Shape::Diurnal, Shape::Herd];

    /// The shape of this name, in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Shape> {
        Shape::ALL.into_iter().find(|shape| shape.name().eq_ignore_ascii_case(text))
    }

    /// Its name: `steady`, `poisson`, `bursty`, `diurnal` or `herd`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Shape::Steady => "steady",
            Shape::Poisson => "poisson",
            Shape::Bursty => "bursty",
            Shape::Diurnal => "diurnal",
            Shape::Herd => "herd",
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) t_us: u64,
    /// None for the usual cost.
    pub(super) cost: Option<Cost>,
    /// An index into the names of tiers.
    pub(super) tier: Option<usize>,
    pub(super) factor: Option<Factor>,
}

/// Arrivals to be made up.
pub(super) struct Arrivals {
    pub(super) shape: Shape,
    /// Requests per second, on average.
    pub(super) rate: f64,
    pub(super) seconds: f64,
    pub(super) keys: usize,
    pub(super) cost: Option<Cost>,
    pub(super) seed: u64,
}

impl Arrivals {
    /// All requests in the order of time, and the key of each.
    pub(super) fn make(&self) -> (Vec<Arrival>, Vec<usize>) {
        let mut random = Rng::with_seed(self.seed);
        let mut times = match self.shape {
            Shape::Steady => self.steady(self.rate),
            Shape::Poisson => self.poisson(&mut random, self.rate),
            Shape::Bursty => self.bursty(&mut random),
            Shape::Diurnal => self.diurnal(&mut random),
            Shape::Herd => self.herd(&mut random),
        };
        times.retain(|seconds| (0.0..self.seconds).contains(seconds));
        times.sort_by(f64::total_cmp);
        let popular = Popularity::new(self.keys);
        let mut arrival = |seconds: f64| {
            let arrival = Arrival {
                t_us: micros(seconds),
                cost: self.cost.clone(),
                tier: None,
                factor: None,
            };
            (arrival, popular.draw(&mut random))
        };
        times.into_iter().map(&mut arrival).unzip()
    }

    fn steady(&self, rate: f64) -> Vec<f64> {
        (0..whole(rate * self.seconds)).map(|number| number as f64 / rate).collect()
    }

    fn poisson(&self, random: &mut Rng, rate: f64) -> Vec<f64> {
        let mut times = Vec::new();
        let mut time = gap(random, rate);
        while time < self.seconds {
            times.push(time);
            time += gap(random, rate);
        }
        times
    }

    /// A fifth comes at random; the rest in eight bursts, each a tenth of an eighth long.
    fn bursty(&self, random: &mut Rng) -> Vec<f64> {
        const BURSTS: usize = 8;
        let mut times = self.poisson(random, self.rate * 0.2);
        let (part, length) = (self.seconds / BURSTS as f64, self.seconds / BURSTS as f64 / 10.0);
        let in_burst = whole(self.rate * self.seconds * 0.8 / BURSTS as f64);
        for burst in 0..BURSTS {
            let start = part * (burst as f64 + random.f64() * 0.9);
            times.extend((0..in_burst).map(|_| start + random.f64() * length));
        }
        times
    }

    /// From a tenth of the average at both ends to almost twice of it in the middle.
    fn diurnal(&self, random: &mut Rng) -> Vec<f64> {
        let mut times = self.poisson(random, self.rate * 1.9);
        times.retain(|time| {
            let rate = 1.0 - 0.9 * (TAU * time / self.seconds).cos();
            random.f64() * 1.9 < rate
        });
        times
    }

    /// Half is steady; the rest comes at four instants, like timers set to the full hour.
    fn herd(&self, random: &mut Rng) -> Vec<f64> {
        const HERDS: usize = 4;
        let mut times = self.poisson(random, self.rate * 0.5);
        let in_herd = whole(self.rate * self.seconds * 0.5 / HERDS as f64);
        for herd in 0..HERDS {
            let instant = self.seconds * (herd as f64 + 0.5) / HERDS as f64;
            times.extend(std::iter::repeat_n(instant, in_herd));
        }
        times
    }
}

/// The time to the next of independent requests.
fn gap(random: &mut Rng, rate: f64) -> f64 {
    -(1.0 - random.f64()).ln() / rate
}

/// Some keys ask more often than others: the n-th asks 1/n as often as the first.
struct Popularity {
    sums: Vec<f64>,
}

impl Popularity {
    fn new(keys: usize) -> Popularity {
        let mut sum = 0.0;
        let add = |number: usize| {
            sum += 1.0 / number as f64;
            sum
        };
        Popularity { sums: (1..=keys.max(1)).map(add).collect() }
    }

    fn draw(&self, random: &mut Rng) -> usize {
        let all = self.sums.last().copied().unwrap_or(1.0);
        let drawn = random.f64() * all;
        self.sums.partition_point(|sum| *sum <= drawn).min(self.sums.len() - 1)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most MOST requests")]
fn whole(count: f64) -> usize {
    count.round() as usize
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within the simulated time"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(shape: Shape, seed: u64) -> Arrivals {
        Arrivals { shape, rate: 50.0, seconds: 200.0, keys: 4, cost: None, seed }
    }

    #[test]
    fn every_shape_keeps_its_rate_its_order_and_its_seed() {
        for shape in Shape::ALL {
            let made_up = traffic(shape, 7).make();
            assert_eq!(made_up, traffic(shape, 7).make(), "{shape:?}");
            let (arrivals, keys) = made_up;
            assert!(arrivals.is_sorted_by_key(|arrival| arrival.t_us), "{shape:?}");
            assert!((9_000..11_000).contains(&arrivals.len()), "{shape:?}: {}", arrivals.len());
            assert!(arrivals.iter().all(|arrival| arrival.t_us < 200_000_000));
            assert!(keys.len() == arrivals.len() && keys.iter().all(|key| *key < 4));
        }
        assert_ne!(traffic(Shape::Poisson, 7).make(), traffic(Shape::Poisson, 8).make());
    }

    #[test]
    fn shapes_are_what_they_are_called() {
        let most_in_a_second = |shape| {
            let mut seconds = [0; 200];
            for arrival in traffic(shape, 3).make().0 {
                seconds[usize::try_from(arrival.t_us / 1_000_000).unwrap()] += 1;
            }
            seconds.into_iter().max().unwrap()
        };
        assert_eq!(most_in_a_second(Shape::Steady), 50);
        assert!((60..120).contains(&most_in_a_second(Shape::Poisson)));
        assert!(most_in_a_second(Shape::Bursty) > 250);
        assert!(most_in_a_second(Shape::Herd) > 1_000);
        let (arrivals, _) = traffic(Shape::Diurnal, 3).make();
        let within = |from: u64, until: u64| {
            arrivals
                .iter()
                .filter(|arrival| (from..until).contains(&(arrival.t_us / 1_000_000)))
                .count()
        };
        assert!(within(90, 110) > 8 * within(0, 10).max(within(190, 200)));
    }

    #[test]
    fn the_first_key_asks_most() {
        let mut counts = [0; 4];
        traffic(Shape::Steady, 1).make().1.iter().for_each(|key| counts[*key] += 1);
        assert!(counts.is_sorted_by(|more, fewer| more > fewer), "{counts:?}");
        assert!((4_500..5_100).contains(&counts[0]), "{counts:?}");
    }
}

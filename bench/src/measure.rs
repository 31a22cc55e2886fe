//! How contestants are timed: interleaved, in processor time of the thread, medians.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::contestant::Run;
use crate::machine::cpu_time;

/// One measurement, or the medians of several.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Nanoseconds of processor time per decision on one thread.
    pub lone: f64,
    /// Millions of decisions per second on two threads, by their processor time.
    pub pair: f64,
    /// The same by the clock on the wall: what else runs on the machine counts too.
    pub pair_wall: f64,
}

impl Timing {
    /// How much of the time both threads really ran at once: below 1 when the machine was busy with
    /// something else, and then two threads did not get into each other's way as they would have.
    pub fn overlap(&self) -> f64 {
        self.pair_wall / self.pair
    }

    /// How much faster two threads are than one.
    pub fn scaling(&self) -> f64 {
        self.pair * self.lone / 1e3
    }
}

/// Times every contestant once per round. `admits`: every decision must admit.
pub fn rounds<K: Sync>(
    runs: &[Run<K>],
    keys: &[K],
    time: Duration,
    rounds: usize,
    admits: bool,
) -> Vec<Timing> {
    let plans: Vec<Plan<'_, K>> = runs.iter().map(|run| Plan::new(run, keys, time)).collect();
    let mut timings = vec![Vec::new(); runs.len()];
    for _ in 0..rounds {
        for (plan, timings) in plans.iter().zip(&mut timings) {
            timings.push(plan.time(admits));
        }
    }
    timings.iter().map(|timings| medians(timings)).collect()
}

/// How often to ask about which keys so that it takes about as long as wanted.
struct Plan<'a, K> {
    run: &'a Run<K>,
    keys: &'a [K],
    passes: usize,
}

impl<'a, K: Sync> Plan<'a, K> {
    fn new(run: &'a Run<K>, keys: &'a [K], time: Duration) -> Self {
        let few = &keys[..keys.len().min(20_000)];
        let start = cpu_time();
        run(few);
        let each = (cpu_time() - start).as_secs_f64() / few.len() as f64;
        let wanted = (time.as_secs_f64() / each) as usize;
        // A whole number of batches for each of two threads.
        let len = wanted.clamp(1024, keys.len()) / 32 * 32;
        Self { run, keys: &keys[..len], passes: (wanted / len).max(1) }
    }

    fn time(&self, admits: bool) -> Timing {
        let lone = self.pass(self.keys, admits).0.as_secs_f64();
        let (first, second) = self.keys.split_at(self.keys.len() / 2);
        let start = Barrier::new(2);
        let half = |keys| {
            start.wait();
            self.pass(keys, admits)
        };
        let ((cpu, wall), (other_cpu, other_wall)) = std::thread::scope(|scope| {
            let other = scope.spawn(|| half(second));
            (half(first), other.join().expect("the other thread runs through"))
        });
        let decisions = (self.keys.len() * self.passes) as f64;
        let each = decisions / 2.0;
        Timing {
            lone: lone * 1e9 / decisions,
            pair: (each / cpu.as_secs_f64() + each / other_cpu.as_secs_f64()) / 1e6,
            pair_wall: decisions / wall.max(other_wall).as_secs_f64() / 1e6,
        }
    }

    /// Processor and wall time of asking about these keys.
    fn pass(&self, keys: &[K], admits: bool) -> (Duration, Duration) {
        let (cpu, wall) = (cpu_time(), Instant::now());
        let admitted: usize = (0..self.passes).map(|_| (self.run)(keys)).sum();
        let spent = (cpu_time() - cpu, wall.elapsed());
        assert!(!admits || admitted == keys.len() * self.passes, "every decision must admit");
        spent
    }
}

fn medians(timings: &[Timing]) -> Timing {
    let of = |field: fn(&Timing) -> f64| median(timings.iter().map(field).collect());
    Timing { lone: of(|t| t.lone), pair: of(|t| t.pair), pair_wall: of(|t| t.pair_wall) }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

//! One limit's numbers, in microseconds where they are times.

use std::time::Duration;

use waterclock::{Algorithm, Align, Gcra, Limit, RollingWindow, Timestamp};

use super::{EXACT, Plain};

/// How far Redis's clock may be from the expected time before the edges of calendar windows are sent again.
const SLACK: Duration = Duration::from_secs(60);

/// The most edges sent with a call. Days, weeks, months and years need three; shorter calendars need more.
const MOST_EDGES: usize = 16;

/// A limit in the scripts' terms.
#[derive(Clone, Debug)]
pub(super) struct LimitShape {
    pub(super) algorithm: Algorithm,
    pub(super) shadow: bool,
    /// How many words its state takes in the core, without the gap's.
    pub(super) words: usize,
    /// Microseconds; 0 for none.
    pub(super) gap_us: u64,
    pub(super) numbers: Numbers,
}

#[derive(Clone, Debug)]
pub(super) enum Numbers {
    Gcra(Cells),
    /// An algorithm that is defined by a list of numbers.
    Row(Vec<u64>),
    /// A fixed window: its limit, and its period unless a calendar says where it ends.
    Fixed(u64, u64),
}

/// gcra: one unit takes step/den microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    pub(super) step: u64,
    pub(super) den: u64,
    /// How many of the core's ticks (1/scale ns) are in one of the script's (1/den µs).
    pub(super) grain: u64,
    pub(super) scale: u64,
    depth: (u64, u64),
    pub(super) overdraft: bool,
    pub(super) capacity: u64,
    /// Whether records include the numbers of the limit that wrote them.
    pub(super) shared: bool,
    /// Whether all records include the time of writing; if not, only those that owe more than a full bucket.
    pub(super) dated: bool,
}

impl Cells {
    fn of(gcra: &Gcra) -> Result<Self, String> {
        let too_fine = || {
            "Redis cannot compute this rate exactly; choose `limit` and `per` with a simpler ratio"
                .to_owned()
        };
        let (step_ns, scale) = gcra.unit_ns();
        let exact = |(step, den): &(u64, u64)| *step < EXACT && *den < EXACT;
        let (step, den) = gcra.unit_ticks(1_000).filter(exact).ok_or_else(too_fine)?;
        let grain = step_ns / step;
        let depth = u128::from(gcra.capacity()) * u128::from(step);
        let part = |n: u128| u64::try_from(n).map_err(|_| too_fine());
        let depth = (part(depth / u128::from(den))?, part(depth % u128::from(den))?);
        let (overdraft, capacity) = (gcra.overdraft(), gcra.capacity());
        let (shared, dated) = (false, false);
        Ok(Self { step, den, grain, scale, depth, overdraft, capacity, shared, dated })
    }

    /// The time to refill a full bucket, rounded down to microseconds.
    pub(super) fn depth_us(&self) -> u64 {
        self.depth.0
    }
}

impl LimitShape {
    pub(super) fn of(limit: &Limit) -> Result<Self, String> {
        let gap = limit.min_interval().map(|gap| micros("min_interval", gap)).transpose()?;
        Ok(Self {
            algorithm: limit.algorithm().clone(),
            shadow: limit.is_shadow(),
            words: limit.words() - usize::from(limit.min_interval().is_some()),
            gap_us: gap.unwrap_or(0),
            numbers: numbers(limit.algorithm())?,
        })
    }

    /// The largest number of units it counts to.
    pub(super) fn holds(&self) -> u64 {
        match &self.numbers {
            Numbers::Gcra(cells) => cells.capacity,
            Numbers::Row(row) => row[0],
            Numbers::Fixed(limit, _) => *limit,
        }
    }

    pub(super) fn share(&mut self) {
        if let Numbers::Gcra(cells) = &mut self.numbers {
            (cells.shared, cells.dated) = (true, true);
        }
    }

    /// Makes all records include the time of writing.
    pub(super) fn date(&mut self) {
        if let Numbers::Gcra(cells) = &mut self.numbers {
            cells.dated = true;
        }
    }

    pub(super) fn plain(&self) -> Option<Plain> {
        match self.numbers {
            Numbers::Gcra(Cells {
                step, den: 1, depth, overdraft: false, shared: false, ..
            }) if self.gap_us == 0 => Some(Plain { unit_us: step, depth_us: depth.0 }),
            _ => None,
        }
    }

    pub(super) fn write_args(&self, push: &mut impl FnMut(String), expected: Timestamp) {
        push(self.code().into());
        push(u8::from(self.shadow).to_string());
        push(self.gap_us.to_string());
        match (&self.numbers, &self.algorithm) {
            (Numbers::Gcra(cells), _) => {
                let row = [cells.step, cells.den, cells.depth.0, cells.depth.1];
                row.iter().for_each(|n| push(n.to_string()));
                let flags = [cells.dated, cells.shared, cells.overdraft];
                push(flags.iter().fold(0, |sum, flag| 2 * sum + u8::from(*flag)).to_string());
            }
            (Numbers::Row(row), _) => row.iter().for_each(|n| push(n.to_string())),
            (Numbers::Fixed(limit, per), Algorithm::FixedWindow(window)) => {
                push(limit.to_string());
                match window.align() {
                    Align::First => push("first".into()),
                    Align::Epoch => push("epoch".into()),
                    Align::Calendar(calendar) => {
                        let slack = nanos(SLACK.min(window.period() / 4));
                        let start = expected.as_nanos().saturating_sub(slack);
                        let mut edges = vec![start / 1_000];
                        let mut edge = Timestamp::from_nanos(start);
                        while edges.len() < MOST_EDGES && edge <= expected.after(SLACK) {
                            edge = calendar.window_end(edge);
                            edges.push(edge.as_nanos().div_ceil(1_000));
                        }
                        push(edges.len().to_string());
                        edges.iter().for_each(|edge| push(edge.to_string()));
                        return;
                    }
                }
                push(per.to_string());
            }
            (Numbers::Fixed(..), _) => {}
        }
    }

    /// The latest instant at which a window may close in which something still counts that was charged then,
    /// in microseconds; 0 where that does not depend on anything but the numbers.
    pub(super) fn closes_by(&self, charged_at: Timestamp) -> u64 {
        let (Algorithm::FixedWindow(window), Numbers::Fixed(_, per)) =
            (&self.algorithm, &self.numbers)
        else {
            return 0;
        };
        let at = charged_at.as_nanos() / 1_000;
        match window.align() {
            Align::First => at + per,
            Align::Epoch => (at / per + 1) * per,
            Align::Calendar(calendar) => calendar.window_end(charged_at).as_nanos().div_ceil(1_000),
        }
    }

    /// The longest time that a state can matter, plus one second.
    pub(super) fn remembers_for(&self) -> Duration {
        const CENTURY: u64 = 36_525 * 86_400 * 1_000_000;
        let longest_us = match (&self.algorithm, &self.numbers) {
            (_, Numbers::Gcra(cells)) if cells.overdraft => CENTURY,
            (_, Numbers::Gcra(cells)) => cells.depth.0,
            (Algorithm::LeakyBucket(_), _) => CENTURY,
            (Algorithm::FixedWindow(window), Numbers::Fixed(_, per)) => match window.align() {
                // Of a calendar only the shortest window is known.
                Align::Calendar(_) => CENTURY,
                _ => *per,
            },
            (Algorithm::MinInterval(_), Numbers::Row(row)) => row[0],
            (Algorithm::ErrorRate(_), Numbers::Row(row)) => row[1] + row[3],
            // Two periods at most: a window and the one before it, or a cell and a window.
            (_, Numbers::Row(row)) => 2 * row[1],
            (_, Numbers::Fixed(_, per)) => *per,
        };
        Duration::from_micros(longest_us.max(self.gap_us)) + Duration::from_secs(1)
    }

    pub(super) fn is_rare(&self) -> bool {
        matches!(self.algorithm, Algorithm::Concurrency(_) | Algorithm::ErrorRate(_))
    }

    /// The script's one-letter code for the algorithm.
    pub(super) fn code(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Gcra(_) => "g",
            Algorithm::LeakyBucket(_) => "l",
            Algorithm::FixedWindow(_) => "f",
            Algorithm::SlidingWindow(_) => "s",
            Algorithm::RollingWindow(_) => "r",
            Algorithm::Quota(_) => "q",
            Algorithm::EvenSlots(_) => "e",
            Algorithm::MinInterval(_) => "m",
            Algorithm::Concurrency(_) => "c",
            Algorithm::ErrorRate(_) => "b",
            _ => "?",
        }
    }

    /// Identifies the calendar of a calendar window.
    pub(super) fn calendar(&self) -> Option<String> {
        match &self.algorithm {
            Algorithm::FixedWindow(window) => match window.align() {
                Align::Calendar(calendar) => Some(format!("{calendar:?}")),
                Align::First | Align::Epoch => None,
            },
            _ => None,
        }
    }
}

fn numbers(algorithm: &Algorithm) -> Result<Numbers, String> {
    Ok(match algorithm {
        Algorithm::Gcra(gcra) => Numbers::Gcra(Cells::of(gcra)?),
        Algorithm::LeakyBucket(leaky) => {
            let every = micros("every", leaky.period())?;
            let overdraft = u64::from(leaky.overdraft());
            Numbers::Row(vec![leaky.capacity(), leaky.drip(), every, overdraft])
        }
        Algorithm::FixedWindow(window) => {
            Numbers::Fixed(window.limit(), micros("per", window.period())?)
        }
        Algorithm::SlidingWindow(window) => {
            Numbers::Row(vec![window.limit(), micros("per", window.period())?])
        }
        Algorithm::RollingWindow(window) => rolling(window)?,
        Algorithm::Quota(quota) => {
            Numbers::Row(vec![quota.limit(), micros("per", quota.period())?])
        }
        Algorithm::EvenSlots(slots) => {
            let halves = Some(2 * slots.limit()).filter(|halves| *halves < EXACT);
            let halves =
                halves.ok_or("Redis cannot count that many slots exactly; lower `limit`")?;
            Numbers::Row(vec![halves, micros("per", slots.period())?])
        }
        Algorithm::MinInterval(gap) => Numbers::Row(vec![micros("every", gap.period())?]),
        Algorithm::Concurrency(slots) => {
            Numbers::Row(vec![slots.limit(), micros("lease", slots.lease())?])
        }
        Algorithm::ErrorRate(breaker) => {
            let per = micros("per", breaker.period())?;
            let cool_down = micros("cool_down", breaker.cool_down())?;
            Numbers::Row(vec![breaker.threshold(), per, breaker.min_samples(), cool_down])
        }
        other => {
            return Err(format!(
                "the Redis scripts do not support the algorithm `{}`",
                other.name()
            ));
        }
    })
}

fn rolling(window: &RollingWindow) -> Result<Numbers, String> {
    let per = micros("per", window.period())?;
    Ok(Numbers::Row(vec![window.limit(), per, window.buckets().unwrap_or(0)]))
}

/// A time in the clock ticks of Redis.
fn micros(name: &str, time: Duration) -> Result<u64, String> {
    let nanos = nanos(time);
    if !nanos.is_multiple_of(1_000) {
        return Err(format!("`{name}` is {nanos} ns; Redis needs a whole number of microseconds"));
    }
    Ok(nanos / 1_000)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

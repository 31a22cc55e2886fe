//! One limit's numbers, in microseconds where they are times.

use std::time::Duration;

use waterclock::{Algorithm, Align, Calendar, Gcra, Limit, RollingWindow, Timestamp};

use super::{COUNT, EXACT, NUMBER, Plain, put};

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

    /// How many numbers its state takes in a record.
    fn numbers(&self) -> usize {
        let (part, den, at) = (self.den > 1 || self.shared, self.shared, self.dated);
        1 + usize::from(part) + usize::from(den) + usize::from(at)
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

    /// What the scripts know of the limit.
    pub(super) fn write_spec(&self, spec: &mut Vec<u8>) {
        spec.extend([self.code(), u8::from(self.shadow)]);
        put(spec, self.gap_us);
        match &self.numbers {
            Numbers::Gcra(cells) => {
                let row = [cells.step, cells.den, cells.depth.0, cells.depth.1];
                row.iter().for_each(|n| put(spec, *n));
                let flags = [cells.dated, cells.shared, cells.overdraft];
                spec.push(flags.iter().fold(0, |sum, flag| 2 * sum + u8::from(*flag)));
            }
            Numbers::Row(row) => row.iter().for_each(|n| put(spec, *n)),
            Numbers::Fixed(limit, per) => {
                put(spec, *limit);
                spec.push(match self.calendar() {
                    Some(_) => b'c',
                    None if self.is_aligned() => b'e',
                    None => b'f',
                });
                put(spec, *per);
            }
        }
    }

    /// The edges of calendar windows around the instant at which a script is expected to run.
    pub(super) fn edges(&self, expected: Timestamp) -> Option<Vec<u8>> {
        let Algorithm::FixedWindow(window) = &self.algorithm else { return None };
        let calendar = self.calendar()?;
        let slack = nanos(SLACK.min(window.period() / 4));
        let start = expected.as_nanos().saturating_sub(slack);
        let (mut edges, mut edge) = (Vec::new(), Timestamp::from_nanos(start));
        put(&mut edges, start / 1_000);
        while edges.len() < MOST_EDGES * NUMBER && edge <= expected.after(SLACK) {
            edge = calendar.window_end(edge);
            put(&mut edges, edge.as_nanos().div_ceil(1_000));
        }
        Some(edges)
    }

    /// How many bytes its state takes in a record, without its log.
    pub(super) fn fixed_bytes(&self) -> usize {
        let own = match (&self.algorithm, &self.numbers) {
            (_, Numbers::Gcra(cells)) => NUMBER * cells.numbers(),
            (Algorithm::RollingWindow(_), _) => NUMBER + 3 * COUNT,
            (Algorithm::Concurrency(_), _) => NUMBER + 4 * COUNT,
            (Algorithm::ErrorRate(_), _) => 3 * NUMBER + 1 + 3 * COUNT,
            _ => NUMBER * self.words,
        };
        own + if self.gap_us > 0 { NUMBER } else { 0 }
    }

    pub(super) fn keeps_log(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::RollingWindow(_) | Algorithm::Concurrency(_) | Algorithm::ErrorRate(_)
        )
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

    /// The letter by which the scripts know the algorithm.
    pub(super) fn code(&self) -> u8 {
        match self.algorithm {
            Algorithm::Gcra(_) => b'g',
            Algorithm::LeakyBucket(_) => b'l',
            Algorithm::FixedWindow(_) => b'f',
            Algorithm::SlidingWindow(_) => b's',
            Algorithm::RollingWindow(_) => b'r',
            Algorithm::Quota(_) => b'q',
            Algorithm::EvenSlots(_) => b'e',
            Algorithm::MinInterval(_) => b'm',
            Algorithm::Concurrency(_) => b'c',
            Algorithm::ErrorRate(_) => b'b',
            _ => b'?',
        }
    }

    pub(super) fn calendar(&self) -> Option<&dyn Calendar> {
        match &self.algorithm {
            Algorithm::FixedWindow(window) => match window.align() {
                Align::Calendar(calendar) => Some(&**calendar),
                Align::First | Align::Epoch => None,
            },
            _ => None,
        }
    }

    fn is_aligned(&self) -> bool {
        matches!(&self.algorithm, Algorithm::FixedWindow(window) if matches!(window.align(), Align::Epoch))
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

//! Records: what the scripts leave under a key, and the core's state made of it.
//!
//! A record is the numbers of its limits one after the other, seven bytes each, big-endian. Where
//! that is one number only it is kept in decimal, which Redis stores in the least space it has; what owes
//! more than a full bucket has the instant of its last write behind that.

use waterclock::{Algorithm, ErrorRate, Timestamp};
use waterclock_core::store::Logs;

use super::limit::{Cells, LimitShape, Numbers};
use super::{EXACT, Shape};

/// Bytes of one number.
const NUMBER: usize = 7;

/// A value that no script of ours wrote.
#[derive(Debug)]
pub(crate) struct NotOurs;

impl Shape {
    /// The state in a record, in the core's words; `now` is when the script read it.
    pub(crate) fn read(
        &self,
        record: Option<&[u8]>,
        now: Timestamp,
        words: &mut [u64],
        logs: &mut Logs,
    ) -> Result<(), NotOurs> {
        let Some(record) = record else { return Ok(()) };
        let mut from = match self.plain() {
            Some(_) => Reader::Decimal(record),
            None => Reader::Packed(record),
        };
        let mut at = 0;
        for limit in &self.limits {
            limit.read(&mut from, now, &mut words[at..at + limit.words], logs)?;
            at += limit.words;
            if limit.gap_us > 0 {
                words[at] = from.instant()?;
                at += 1;
            }
        }
        from.end()
    }

    /// The record of a state.
    pub(crate) fn write(&self, words: &[u64], logs: &Logs, now: Timestamp) -> Vec<u8> {
        let mut numbers = Vec::new();
        let mut at = 0;
        for limit in &self.limits {
            limit.write(&words[at..at + limit.words], logs, now, &mut numbers);
            at += limit.words;
            if limit.gap_us > 0 {
                numbers.push(words[at] / 1_000);
                at += 1;
            }
        }
        match (self.plain(), &*numbers) {
            (Some(_), [only]) => only.to_string().into_bytes(),
            (Some(_), [only, written]) => format!("{only} {written}").into_bytes(),
            _ => numbers.iter().flat_map(|n| n.to_be_bytes().into_iter().skip(1)).collect(),
        }
    }
}

impl LimitShape {
    /// Fills the algorithm's own words.
    fn read(
        &self,
        from: &mut Reader<'_>,
        now: Timestamp,
        words: &mut [u64],
        logs: &mut Logs,
    ) -> Result<(), NotOurs> {
        match (&self.algorithm, words) {
            (Algorithm::Gcra(gcra), words) => {
                gcra.set_full_at(self.cells()?.read(from, now)?, words);
            }
            (Algorithm::LeakyBucket(_), [level, anchor]) => {
                (*level, *anchor) = (from.number()?, from.instant()?);
            }
            (Algorithm::FixedWindow(_) | Algorithm::Quota(_), [closes, count]) => {
                (*closes, *count) = (from.instant()?, from.number()?);
            }
            (Algorithm::SlidingWindow(_), [closes, previous, current]) => {
                (*closes, *previous, *current) = (from.instant()?, from.number()?, from.number()?);
            }
            (Algorithm::RollingWindow(window), [log]) => {
                let (_total, count) = (from.number()?, from.number()?);
                let entry = |_| {
                    let at = Timestamp::from_nanos(from.instant()?);
                    Ok((window.stamp(at).as_nanos(), from.number()?))
                };
                *log = logs.put((0..count).map(entry).collect::<Result<Vec<_>, _>>()?);
            }
            (Algorithm::Concurrency(_), [log]) => {
                let (_total, count) = (from.number()?, from.number()?);
                let lease = |_| Ok((from.instant()?, from.number()?));
                *log = logs.put((0..count).map(lease).collect::<Result<Vec<_>, _>>()?);
            }
            (Algorithm::ErrorRate(_), [log, tripped]) => {
                let (_total, count) = (from.number()?, from.number()?);
                let reports = |_| Ok((from.instant()?, from.number()?));
                *log = logs.put((0..count).map(reports).collect::<Result<Vec<_>, _>>()?);
                let (since, probes) = (from.number()?, from.number()?);
                let since = since.checked_sub(1).map(Timestamp::from_micros);
                *tripped = ErrorRate::tripped_word(since.map(|since| (since, probes == 1)));
            }
            (Algorithm::EvenSlots(slots), [taken]) => {
                let event = from.number()?.checked_sub(1);
                *taken = event.map_or(0, |at| slots.taken_until(Timestamp::from_micros(at)));
            }
            (Algorithm::MinInterval(_), [welcome]) => *welcome = from.instant()?,
            _ => return Err(NotOurs),
        }
        Ok(())
    }

    /// The reverse, for carrying a key over to a new definition of its policy.
    fn write(&self, words: &[u64], logs: &Logs, now: Timestamp, to: &mut Vec<u64>) {
        match (&self.algorithm, words) {
            (Algorithm::Gcra(gcra), words) => {
                if let Ok(cells) = self.cells() {
                    cells.write(gcra.full_at(words), now, to);
                }
            }
            (Algorithm::LeakyBucket(_), &[level, anchor]) => to.extend([level, anchor / 1_000]),
            (Algorithm::FixedWindow(_) | Algorithm::Quota(_), &[closes, count]) => {
                to.extend([closes / 1_000, count]);
            }
            (Algorithm::SlidingWindow(_), &[closes, previous, current]) => {
                to.extend([closes / 1_000, previous, current]);
            }
            (Algorithm::RollingWindow(window), &[log]) => {
                let total = logs.entries(log).map(|(_, size)| size).sum();
                to.extend([total, logs.entries(log).len() as u64]);
                for (stamp, size) in logs.entries(log) {
                    // On a grid, a stamp is the end of its cell, and any instant in it will do.
                    let at = if window.buckets().is_some() { stamp - 1 } else { stamp };
                    to.extend([at / 1_000, size]);
                }
            }
            (Algorithm::Concurrency(_), &[log]) => {
                let total = logs.entries(log).map(|(_, size)| size).sum();
                to.extend([total, logs.entries(log).len() as u64]);
                logs.entries(log).for_each(|(ends, size)| to.extend([ends / 1_000, size]));
            }
            (Algorithm::ErrorRate(_), &[log, tripped]) => {
                let total = logs.entries(log).map(|(_, size)| size).sum();
                to.extend([total, logs.entries(log).len() as u64]);
                logs.entries(log).for_each(|(at, size)| to.extend([at / 1_000, size]));
                let tripped = ErrorRate::tripped_since(tripped);
                let since = tripped.map_or(0, |(since, _)| since.as_nanos() / 1_000 + 1);
                to.extend([since, u64::from(tripped.is_some_and(|(_, probes)| probes))]);
            }
            // Any instant of the half-slot will do, the last one as well.
            (Algorithm::EvenSlots(_), &[taken]) => {
                to.push(taken.checked_sub(1).map_or(0, |last| last / 1_000 + 1));
            }
            (_, words) => to.extend(words.iter().map(|word| word / 1_000)),
        }
    }

    fn cells(&self) -> Result<&Cells, NotOurs> {
        if let Numbers::Gcra(cells) = &self.numbers { Ok(cells) } else { Err(NotOurs) }
    }
}

impl Cells {
    /// The instant at which the key is full, in 1/scale ns.
    fn read(&self, from: &mut Reader<'_>, now: Timestamp) -> Result<u128, NotOurs> {
        let mut full = from.number()?;
        let mut part = if self.den > 1 || self.shared { from.number()? } else { 0 };
        if self.shared {
            let den = from.number()?;
            if part >= den {
                return Err(NotOurs);
            }
            // Rounded up, as the script does.
            let ours = (u128::from(part) * u128::from(self.den)).div_ceil(u128::from(den));
            part = u64::try_from(ours).map_err(|_| NotOurs)?;
        }
        let now_us = now.as_nanos() / 1_000;
        if self.dated || !from.is_at_end() {
            // Any debt may be real, so a step back shows only by when it was written.
            full = full.saturating_sub(from.number()?.saturating_sub(now_us));
        } else {
            full = full.min(now_us + self.depth_us());
        }
        let micros = u128::from(full) * 1_000 * u128::from(self.scale);
        Ok(micros + u128::from(part) * u128::from(self.grain))
    }

    fn write(&self, tat: u128, now: Timestamp, to: &mut Vec<u64>) {
        let micro = 1_000 * u128::from(self.scale);
        let number = |n: u128| u64::try_from(n).unwrap_or(EXACT - 1);
        let full = number(tat / micro);
        to.push(full);
        if self.den > 1 || self.shared {
            to.push(number(tat % micro / u128::from(self.grain)));
        }
        if self.shared {
            to.push(self.den);
        }
        let now_us = now.as_nanos() / 1_000;
        if self.dated || full > now_us + self.depth_us() {
            to.push(now_us);
        }
    }
}

/// Takes a record apart, number by number.
enum Reader<'a> {
    Decimal(&'a [u8]),
    Packed(&'a [u8]),
}

impl Reader<'_> {
    fn number(&mut self) -> Result<u64, NotOurs> {
        let number = match self {
            Self::Decimal(digits) => {
                let mut both = digits.splitn(2, |byte| *byte == b' ');
                let number = both.next().unwrap_or_default();
                *digits = both.next().unwrap_or_default();
                std::str::from_utf8(number).ok().and_then(|number| number.parse().ok())
            }
            Self::Packed(bytes) => bytes.split_at_checked(NUMBER).map(|(number, rest)| {
                *bytes = rest;
                number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            }),
        };
        number.filter(|n| *n < EXACT).ok_or(NotOurs)
    }

    /// An instant in the core's nanoseconds.
    fn instant(&mut self) -> Result<u64, NotOurs> {
        Ok(self.number()? * 1_000)
    }

    fn is_at_end(&self) -> bool {
        matches!(self, Self::Decimal([]) | Self::Packed([]))
    }

    fn end(self) -> Result<(), NotOurs> {
        if self.is_at_end() { Ok(()) } else { Err(NotOurs) }
    }
}

//! Records: what the scripts leave under a key, and the core's state made of it.
//!
//! A record is a byte, the tag of its definition, and the numbers of its limits one after the other, big-endian; then the
//! logs, each a ring of pairs of numbers (`ring.lua`). Scripts reply with what matters of a log instead: a few pairs.
//! If something is due of the key (`due.lua`), two instants stand before the numbers, and the byte is another.
//! A policy of one plain gcra limit keeps one decimal number that ends in the tag, which Redis stores in the least space
//! it has; what owes more than a full bucket has the instant of its last write behind that.

use waterclock::{Algorithm, ErrorRate, Timestamp};
use waterclock_core::store::Logs;

use super::limit::{Cells, LimitShape, Numbers};
use super::{COUNT, EXACT, HEAD, INSTANTS, NUMBER, Shape, put};
use crate::keyspace::TAG_DIGITS;

/// The fewest places of a ring.
const LEAST_PLACES: usize = 4;
/// Bytes of a place.
const PLACE: usize = 2 * NUMBER;

/// A value that no script of ours wrote.
#[derive(Debug)]
pub(crate) struct NotOurs;

impl Shape {
    /// The state that a script replied with, in the core's words; `now` is when it read it.
    pub(crate) fn read_reply(
        &self,
        reply: Option<&[u8]>,
        now: Timestamp,
        words: &mut [u64],
        logs: &mut Logs,
    ) -> Result<(), NotOurs> {
        self.read(reply, false, now, words, logs)
    }

    /// The state in a whole record.
    pub(crate) fn read_record(
        &self,
        record: &[u8],
        now: Timestamp,
        words: &mut [u64],
        logs: &mut Logs,
    ) -> Result<(), NotOurs> {
        self.read(Some(record), true, now, words, logs)
    }

    fn read(
        &self,
        record: Option<&[u8]>,
        is_whole: bool,
        now: Timestamp,
        words: &mut [u64],
        logs: &mut Logs,
    ) -> Result<(), NotOurs> {
        let Some(record) = record else { return Ok(()) };
        let head = if record.first() == Some(&2) { HEAD + INSTANTS } else { HEAD };
        if record.len() == head && self.plain().is_none() {
            // Fresh, but something is due.
            return Ok(());
        }
        let mut from = match self.plain() {
            Some(_) => Reader::plain(record)?,
            None if is_whole && self.keeps_logs() => {
                let (states, rings) = record.split_at_checked(self.fixed_part()).ok_or(NotOurs)?;
                Reader::Packed { numbers: states.get(head..).ok_or(NotOurs)?, rings: Some(rings) }
            }
            None => Reader::Packed { numbers: record.get(head..).ok_or(NotOurs)?, rings: None },
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
        let mut record = Record { fixed: vec![1], rings: Vec::new() };
        record.fixed.extend_from_slice(self.tag.digits());
        if self.keeps_logs() {
            record.fixed[0] = 2;
            record.put([0, 0]);
        }
        let mut at = 0;
        for limit in &self.limits {
            limit.write(&words[at..at + limit.words], logs, now, &mut record);
            at += limit.words;
            if limit.gap_us > 0 {
                put(&mut record.fixed, words[at] / 1_000);
                at += 1;
            }
        }
        if self.plain().is_some() {
            let mut numbers = Reader::Packed { numbers: &record.fixed[HEAD..], rings: None };
            let full = numbers.number().unwrap_or(0);
            let tag = String::from_utf8_lossy(self.tag.digits()).into_owned();
            let written = numbers.number().map_or(String::new(), |written| format!(" {written}"));
            return format!("{full}{tag}{written}").into_bytes();
        }
        record.bytes()
    }
}

/// A record that is being written.
struct Record {
    fixed: Vec<u8>,
    /// The places of each log, and what is in them.
    rings: Vec<(usize, Vec<u8>)>,
}

impl Record {
    fn put(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| put(&mut self.fixed, number));
    }

    fn put_count(&mut self, count: usize) {
        self.fixed.extend(u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes());
    }

    /// A log: its length, where it starts, its places.
    fn put_log(&mut self, entries: impl ExactSizeIterator<Item = (u64, u64)>) {
        let count = entries.len();
        let places = if count == 0 { 0 } else { count.next_power_of_two().max(LEAST_PLACES) };
        [count, 0, places].into_iter().for_each(|n| self.put_count(n));
        let ring = entries.fold(Vec::new(), |mut ring, (at, second)| {
            put(&mut ring, at);
            put(&mut ring, second);
            ring
        });
        self.rings.push((places, ring));
    }

    fn bytes(self) -> Vec<u8> {
        let Self { fixed: mut bytes, rings } = self;
        for (places, ring) in rings {
            let end = bytes.len() + places * PLACE;
            bytes.extend(ring);
            bytes.resize(end, 0);
        }
        bytes
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
                let mut entries = if from.is_whole() {
                    let mut before = from.number()?;
                    let mut entries = from.ring()?;
                    for (_, sum) in &mut entries {
                        (*sum, before) = (sum.wrapping_sub(before) % EXACT, *sum);
                    }
                    entries
                } else {
                    from.entries()?
                };
                for (at, _) in &mut entries {
                    *at = window.stamp(Timestamp::from_nanos(*at)).as_nanos();
                }
                *log = logs.put(entries);
            }
            (Algorithm::Concurrency(_), [log]) => {
                *log = logs.put(if from.is_whole() {
                    let _total = from.number()?;
                    let _live = from.count()?;
                    from.ring()?
                } else {
                    from.entries()?
                });
            }
            (Algorithm::ErrorRate(_), [log, tripped]) => {
                let (since, probes);
                if from.is_whole() {
                    let (_total, _newest) = (from.number()?, from.number()?);
                    (since, probes) = (from.number()?, u64::from(from.byte()?));
                    *log = logs.put(from.ring()?);
                } else {
                    *log = logs.put(from.entries()?);
                    (since, probes) = (from.number()?, from.number()?);
                }
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
    fn write(&self, words: &[u64], logs: &Logs, now: Timestamp, to: &mut Record) {
        match (&self.algorithm, words) {
            (Algorithm::Gcra(gcra), words) => {
                if let Ok(cells) = self.cells() {
                    cells.write(gcra.full_at(words), now, to);
                }
            }
            (Algorithm::LeakyBucket(_), &[level, anchor]) => to.put([level, anchor / 1_000]),
            (Algorithm::FixedWindow(_) | Algorithm::Quota(_), &[closes, count]) => {
                to.put([closes / 1_000, count]);
            }
            (Algorithm::SlidingWindow(_), &[closes, previous, current]) => {
                to.put([closes / 1_000, previous, current]);
            }
            (Algorithm::RollingWindow(window), &[log]) => {
                to.put([0]);
                let mut sum = 0;
                to.put_log(logs.entries(log).map(|(stamp, size)| {
                    sum = (sum + size) % EXACT;
                    // On a grid, a stamp is the end of its cell, and any instant in it will do.
                    let at = if window.buckets().is_some() { stamp - 1 } else { stamp };
                    (at / 1_000, sum)
                }));
            }
            (Algorithm::Concurrency(_), &[log]) => {
                to.put([logs.entries(log).map(|(_, size)| size).sum()]);
                to.put_count(logs.entries(log).len());
                to.put_log(logs.entries(log).map(|(ends, size)| (ends / 1_000, size)));
            }
            (Algorithm::ErrorRate(_), &[log, tripped]) => {
                let total = logs.entries(log).map(|(_, size)| size).sum();
                let newest = logs.entries(log).last().map_or(0, |(at, _)| at / 1_000);
                let tripped = ErrorRate::tripped_since(tripped);
                let since = tripped.map_or(0, |(since, _)| since.as_nanos() / 1_000 + 1);
                to.put([total, newest, since]);
                to.fixed.push(u8::from(tripped.is_some_and(|(_, probes)| probes)));
                to.put_log(logs.entries(log).map(|(at, size)| (at / 1_000, size)));
            }
            // Any instant of the half-slot will do, the last one as well.
            (Algorithm::EvenSlots(_), &[taken]) => {
                to.put([taken.checked_sub(1).map_or(0, |last| last / 1_000 + 1)]);
            }
            (_, words) => to.put(words.iter().map(|word| word / 1_000)),
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

    fn write(&self, tat: u128, now: Timestamp, to: &mut Record) {
        let micro = 1_000 * u128::from(self.scale);
        let number = |n: u128| u64::try_from(n).unwrap_or(EXACT - 1);
        let full = number(tat / micro);
        to.put([full]);
        if self.den > 1 || self.shared {
            to.put([number(tat % micro / u128::from(self.grain))]);
        }
        if self.shared {
            to.put([self.den]);
        }
        let now_us = now.as_nanos() / 1_000;
        if self.dated || full > now_us + self.depth_us() {
            to.put([now_us]);
        }
    }
}

/// Takes a record apart, number by number.
enum Reader<'a> {
    Plain { full: Option<u64>, written: Option<u64> },
    Packed { numbers: &'a [u8], rings: Option<&'a [u8]> },
}

impl<'a> Reader<'a> {
    /// A decimal number that ends in the tag, and one behind it perhaps.
    fn plain(record: &'a [u8]) -> Result<Self, NotOurs> {
        let read = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse().ok();
        let number = record.split(|byte| *byte == b'+').next().unwrap_or_default();
        let mut both = number.splitn(2, |byte| *byte == b' ');
        let tagged = both.next().unwrap_or_default();
        let digits = tagged.len().checked_sub(TAG_DIGITS).ok_or(NotOurs)?;
        let full = read(&tagged[..digits]).ok_or(NotOurs)?;
        let written = both.next().map(|digits| read(digits).ok_or(NotOurs)).transpose()?;
        Ok(Self::Plain { full: Some(full), written })
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], NotOurs> {
        let Self::Packed { numbers, .. } = self else { return Err(NotOurs) };
        let (taken, rest) = numbers.split_at_checked(bytes).ok_or(NotOurs)?;
        *numbers = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, NotOurs> {
        let number = match self {
            Self::Plain { full, written } => {
                full.take().or_else(|| written.take()).ok_or(NotOurs)?
            }
            Self::Packed { .. } => {
                self.take(NUMBER)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            }
        };
        if number < EXACT { Ok(number) } else { Err(NotOurs) }
    }

    fn count(&mut self) -> Result<usize, NotOurs> {
        let bytes = self.take(COUNT)?;
        Ok(bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn byte(&mut self) -> Result<u8, NotOurs> {
        Ok(self.take(1)?[0])
    }

    /// An instant in the core's nanoseconds.
    fn instant(&mut self) -> Result<u64, NotOurs> {
        Ok(self.number()? * 1_000)
    }

    /// What a script replied of a log: (instant, size), oldest first.
    fn entries(&mut self) -> Result<Vec<(u64, u64)>, NotOurs> {
        let count = self.number()?;
        (0..count).map(|_| Ok((self.instant()?, self.number()?))).collect()
    }

    /// Whether this is a record with its logs, and not a reply.
    fn is_whole(&self) -> bool {
        matches!(self, Self::Packed { rings: Some(_), .. })
    }

    /// A whole log, oldest first.
    fn ring(&mut self) -> Result<Vec<(u64, u64)>, NotOurs> {
        let (count, head, places) = (self.count()?, self.count()?, self.count()?);
        let Self::Packed { rings: Some(rings), .. } = self else { return Err(NotOurs) };
        // The last ring ends where nothing was written yet.
        let (ring, rest) = rings.split_at(rings.len().min(places.saturating_mul(PLACE)));
        *rings = rest;
        let entry = |i: usize| {
            let at = ((head + i) % places.max(1)) * PLACE;
            let numbers = ring.get(at..at + PLACE).ok_or(NotOurs)?;
            let mut pair = Reader::Packed { numbers, rings: None };
            Ok((pair.instant()?, pair.number()?))
        };
        if count > places { Err(NotOurs) } else { (0..count).map(entry).collect() }
    }

    fn is_at_end(&self) -> bool {
        match self {
            Self::Plain { full, written } => full.is_none() && written.is_none(),
            Self::Packed { numbers, .. } => numbers.is_empty(),
        }
    }

    fn end(self) -> Result<(), NotOurs> {
        if self.is_at_end() { Ok(()) } else { Err(NotOurs) }
    }
}

//! A policy's numbers as text: kept beside the states written under them, so that these can still be read
//! after the numbers have changed.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::time::Duration;

use crate::{
    Algorithm, Align, Concurrency, ErrorRate, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit,
    MinInterval, Policy, Quota, RollingWindow, SlidingWindow,
};

pub(super) fn write(policy: &Policy) -> String {
    policy.limits().iter().fold(String::new(), |mut text, limit| {
        limit.name().bytes().for_each(|byte| _ = write!(text, "{byte:02x}"));
        let gap_ns = limit.min_interval().map_or(0, nanos);
        let (code, numbers) = defining(limit.algorithm());
        _ = write!(text, " {code} {gap_ns}");
        numbers.iter().for_each(|number| _ = write!(text, " {number}"));
        text.push('\n');
        text
    })
}

pub(super) fn read(name: &str, text: &str) -> Option<Policy> {
    let limits: Option<Vec<Limit>> = text.lines().map(read_limit).collect();
    Policy::new(name, limits?).ok()
}

/// A letter for the algorithm, and its numbers; times in nanoseconds.
fn defining(algorithm: &Algorithm) -> (char, Vec<u64>) {
    match algorithm {
        Algorithm::Gcra(gcra) => {
            let (step_ns, scale) = gcra.unit_ns();
            ('g', Vec::from([step_ns, scale, gcra.capacity(), gcra.overdraft().into()]))
        }
        Algorithm::LeakyBucket(leaky) => {
            let numbers = [leaky.capacity(), leaky.drip(), nanos(leaky.period())];
            let overdraft = [u64::from(leaky.overdraft())];
            ('l', numbers.into_iter().chain(overdraft).collect())
        }
        Algorithm::FixedWindow(window) => {
            let align = match window.align() {
                Align::First => 0,
                Align::Epoch => 1,
                Align::Calendar(_) => 2,
            };
            ('f', Vec::from([window.limit(), nanos(window.period()), align]))
        }
        Algorithm::SlidingWindow(window) => {
            ('s', Vec::from([window.limit(), nanos(window.period())]))
        }
        Algorithm::RollingWindow(window) => {
            let buckets = window.buckets().unwrap_or(0);
            ('r', Vec::from([window.limit(), nanos(window.period()), buckets]))
        }
        Algorithm::Quota(quota) => ('q', Vec::from([quota.limit(), nanos(quota.period())])),
        Algorithm::EvenSlots(slots) => ('e', Vec::from([slots.limit(), nanos(slots.period())])),
        Algorithm::Concurrency(slots) => ('c', Vec::from([slots.limit(), nanos(slots.lease())])),
        Algorithm::ErrorRate(breaker) => {
            let (per, cool_down) = (nanos(breaker.period()), nanos(breaker.cool_down()));
            ('x', Vec::from([breaker.threshold(), per, breaker.min_samples(), cool_down]))
        }
        Algorithm::MinInterval(gap) => ('m', Vec::from([nanos(gap.period())])),
    }
}

fn read_limit(line: &str) -> Option<Limit> {
    let mut words = line.split(' ');
    let name = read_name(words.next()?)?;
    let code = words.next()?;
    let gap: u64 = words.next()?.parse().ok()?;
    let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let time = Duration::from_nanos;
    let limit: Limit = match (code, &*numbers) {
        ("g", &[step, scale, capacity, overdraft]) => {
            let gcra = Gcra::new(scale, time(step)).ok()?.with_capacity(capacity);
            gcra.with_overdraft(overdraft == 1).into()
        }
        ("l", &[capacity, drip, every, overdraft]) => {
            let leaky = LeakyBucket::new(capacity, drip, time(every)).ok()?;
            leaky.with_overdraft(overdraft == 1).into()
        }
        ("f", &[limit, per, 1]) => FixedWindow::aligned(limit, time(per)).ok()?.into(),
        ("f", &[limit, per, _]) => FixedWindow::new(limit, time(per)).ok()?.into(),
        ("s", &[limit, per]) => SlidingWindow::new(limit, time(per)).ok()?.into(),
        ("r", &[limit, per, 0]) => RollingWindow::new(limit, time(per)).ok()?.into(),
        ("r", &[limit, per, buckets]) => {
            RollingWindow::bucketed(limit, time(per), buckets).ok()?.into()
        }
        ("q", &[limit, per]) => Quota::new(limit, time(per)).ok()?.into(),
        ("e", &[slots, per]) => EvenSlots::new(slots, time(per)).ok()?.into(),
        ("c", &[limit, lease]) => Concurrency::new(limit, time(lease)).ok()?.into(),
        ("x", &[threshold, per, samples, cool_down]) => {
            ErrorRate::new(threshold, time(per), samples, time(cool_down)).ok()?.into()
        }
        ("m", &[every]) => MinInterval::new(time(every)).ok()?.into(),
        _ => return None,
    };
    let limit = limit.with_name(&name);
    if gap == 0 { Some(limit) } else { limit.with_min_interval(time(gap)).ok() }
}

fn read_name(hex: &str) -> Option<String> {
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(hex.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?).ok()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Decide as _, Persist as _};

    #[test]
    fn every_kind_of_limit_reads_back_as_it_was() {
        let hour = Duration::from_secs(3_600);
        let limits: Vec<Limit> = Vec::from([
            Gcra::new(7, hour).unwrap().with_capacity(3).with_overdraft(true).into(),
            Limit::per_second(0).with_name("nothing"),
            LeakyBucket::new(10, 3, hour).unwrap().with_name("leaky é\n"),
            FixedWindow::new(5, hour).unwrap().with_name("first"),
            FixedWindow::aligned(5, hour).unwrap().with_name("epoch"),
            SlidingWindow::new(5, hour).unwrap().into(),
            RollingWindow::new(5, hour).unwrap().into(),
            RollingWindow::bucketed(5, hour, 60).unwrap().with_name("buckets"),
            Quota::new(5, hour).unwrap().into(),
            EvenSlots::new(5, hour).unwrap().into(),
            Concurrency::new(5, hour).unwrap().into(),
            ErrorRate::new(5_000, hour, 10, hour).unwrap().into(),
            Limit::from(MinInterval::new(hour).unwrap()).with_min_interval(hour).unwrap(),
        ]);
        let policy = Policy::new("p", limits).unwrap();
        let back = Policy::from_definition("p", &policy.definition()).unwrap();
        assert_eq!(back.definition(), policy.definition());
        assert_eq!(back.words(), policy.words());
        assert!(Policy::from_definition("p", "6c z 0 1\n").is_none());
        assert!(Policy::from_definition("p", "nonsense").is_none());
        assert!(Policy::from_definition("p", "").unwrap().limits().is_empty());
    }
}

//! A policy's numbers as text, kept beside its records: a process that starts with other numbers reads
//! by which ones the records were written.

use std::fmt::Write as _;
use std::time::Duration;

use tollgate::{
    Algorithm, Align, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, MinInterval, Policy, Quota,
    RollingWindow, SlidingWindow,
};

use super::Shape;
use super::limit::{LimitShape, Numbers};

impl Shape {
    /// One line per limit: its name, algorithm, gap and numbers.
    pub(crate) fn definition(&self) -> String {
        self.limits.iter().fold(String::new(), |mut text, limit| {
            let name: String = limit.name.bytes().map(|byte| format!("{byte:02x}")).collect();
            _ = write!(text, "{name} {} {}", limit.code(), limit.gap_us);
            for number in limit.defining() {
                _ = write!(text, " {number}");
            }
            text.push('\n');
            text
        })
    }
}

/// The policy of a definition. What it cannot be read from starts fresh.
pub(crate) fn read_definition(name: &str, text: &str) -> Option<Policy> {
    let limits: Option<Vec<Limit>> = text.lines().map(read_limit).collect();
    Policy::new(name, limits?).ok()
}

impl LimitShape {
    fn defining(&self) -> Vec<u64> {
        match (&self.numbers, &self.algorithm) {
            (Numbers::Gcra(cells), _) => {
                vec![cells.step, cells.den, cells.capacity, u64::from(cells.overdraft)]
            }
            (Numbers::Row(row), _) => row.clone(),
            (Numbers::Fixed(limit, per), Algorithm::FixedWindow(window)) => {
                // What a calendar counted is carried like what any other window did.
                vec![*limit, *per, u64::from(matches!(window.align(), Align::Epoch))]
            }
            (Numbers::Fixed(limit, per), _) => vec![*limit, *per],
        }
    }
}

fn read_limit(line: &str) -> Option<Limit> {
    let mut words = line.split(' ');
    let name = read_name(words.next()?)?;
    let code = words.next()?;
    let gap = words.next()?.parse().ok()?;
    let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let time = Duration::from_micros;
    let limit: Limit = match (code, &*numbers) {
        ("g", &[step, den, capacity, overdraft]) => {
            let gcra = Gcra::new(den, time(step)).ok()?.capacity(capacity);
            gcra.overdraft(overdraft == 1).into()
        }
        ("l", &[capacity, drip, every, overdraft]) => {
            let leaky = LeakyBucket::new(capacity, drip, time(every)).ok()?;
            leaky.overdraft(overdraft == 1).into()
        }
        ("f", &[limit, per, 1]) => FixedWindow::aligned(limit, time(per)).ok()?.into(),
        ("f", &[limit, per, _]) => FixedWindow::new(limit, time(per)).ok()?.into(),
        ("s", &[limit, per]) => SlidingWindow::new(limit, time(per)).ok()?.into(),
        ("r", &[limit, per, 0]) => RollingWindow::new(limit, time(per)).ok()?.into(),
        ("r", &[limit, per, buckets]) => {
            RollingWindow::bucketed(limit, time(per), buckets).ok()?.into()
        }
        ("q", &[limit, per]) => Quota::new(limit, time(per)).ok()?.into(),
        ("e", &[halves, per]) => EvenSlots::new(halves / 2, time(per)).ok()?.into(),
        ("m", &[every]) => MinInterval::new(time(every)).ok()?.into(),
        _ => return None,
    };
    let limit = limit.named(&name);
    if gap == 0 { Some(limit) } else { limit.min_interval(time(gap)).ok() }
}

fn read_name(hex: &str) -> Option<String> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(hex.as_bytes().chunks(2).map(byte).collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_limit_reads_back_as_it_was() {
        let hour = Duration::from_secs(3_600);
        let limits: Vec<Limit> = vec![
            Gcra::new(7, hour).unwrap().capacity(3).overdraft(true).into(),
            LeakyBucket::new(10, 3, hour).unwrap().named("leaky é\n"),
            FixedWindow::new(5, hour).unwrap().named("first"),
            FixedWindow::aligned(5, hour).unwrap().named("epoch"),
            SlidingWindow::new(5, hour).unwrap().into(),
            RollingWindow::new(5, hour).unwrap().into(),
            RollingWindow::bucketed(5, hour, 60).unwrap().named("buckets"),
            Quota::new(5, hour).unwrap().into(),
            EvenSlots::new(5, hour).unwrap().into(),
            Limit::from(MinInterval::new(hour).unwrap()).min_interval(hour).unwrap(),
        ];
        let policy = Policy::new("p", limits).unwrap();
        let shape = Shape::of(&policy).unwrap();
        let back = read_definition("p", &shape.definition()).unwrap();
        let back_shape = Shape::of(&back).unwrap();
        assert_eq!(back_shape.definition(), shape.definition());
        assert_eq!(back_shape.fingerprint(), shape.fingerprint());
        assert!(read_definition("p", "6c z 0 1\n").is_none());
        assert!(read_definition("p", "nonsense").is_none());
    }
}

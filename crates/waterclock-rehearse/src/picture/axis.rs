//! Time from left to right.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use waterclock_config::Micros;

/// How instants are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// As what has passed since zero.
    SinceZero,
    /// As hours and dates of UTC.
    Utc,
}

impl Times {
    /// Times of traces may start with 0, those of logs are dates.
    pub(crate) fn of(t_us: u64) -> Times {
        const THREE_YEARS_US: u64 = 3 * 365 * 86_400_000_000;
        if t_us < THREE_YEARS_US { Times::SinceZero } else { Times::Utc }
    }

    /// An instant in full.
    pub(crate) fn show(self, t_us: u64) -> String {
        match self {
            Times::SinceZero => Micros(t_us / 1_000 * 1_000).in_words(),
            Times::Utc => utc(t_us, "%Y-%m-%d %H:%M:%SZ"),
        }
    }

    /// An instant as HTML takes it.
    pub(crate) fn machine(self, t_us: u64) -> String {
        utc(t_us, "%Y-%m-%dT%H:%M:%S%.3fZ")
    }
}

/// Distances between ticks that people read easily.
fn steps_us() -> impl Iterator<Item = u64> {
    let of = |unit_us: u64, counts: &'static [u64]| counts.iter().map(move |count| count * unit_us);
    of(1_000, &[1, 2, 5, 10, 20, 50, 100, 200, 500])
        .chain(of(1_000_000, &[1, 2, 5, 10, 15, 30]))
        .chain(of(60_000_000, &[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720]))
        .chain(of(DAY_US, &[1, 2, 7, 14, 28, 91, 182, 364, 728, 1_820, 3_640, 9_100]))
}

const DAY_US: u64 = 86_400_000_000;
const MOST_TICKS: u64 = 9;

/// Instants to places.
pub(super) struct Axis {
    from_us: u64,
    until_us: u64,
    left: f64,
    width: f64,
}

impl Axis {
    pub(super) fn new((from_us, until_us): (u64, u64), left: f64, width: f64) -> Axis {
        Axis { from_us, until_us: until_us.max(from_us + 1), left, width }
    }

    pub(super) fn x(&self, t_us: u64) -> f64 {
        let part = t_us.saturating_sub(self.from_us) as f64 / (self.until_us - self.from_us) as f64;
        self.left + part.min(1.0) * self.width
    }

    /// Where ticks stand, and their words.
    pub(super) fn ticks(&self, times: Times) -> Vec<(f64, String)> {
        let span = self.until_us - self.from_us;
        let fits = |step: &u64| span / step <= MOST_TICKS;
        let step = steps_us().find(fits).unwrap_or(span / MOST_TICKS + 1);
        let origin = self.from_us.div_ceil(step).saturating_mul(step);
        let places = std::iter::successors(Some(origin), |t_us| t_us.checked_add(step));
        let within = places.take_while(|t_us| *t_us <= self.until_us);
        let tick = |t_us| (self.x(t_us), label(times, t_us, (step, span), t_us == origin));
        within.map(tick).collect()
    }
}

fn label(times: Times, t_us: u64, (step_us, span_us): (u64, u64), is_first: bool) -> String {
    match times {
        Times::SinceZero => times.show(t_us),
        Times::Utc if span_us >= 300 * DAY_US => utc(t_us, "%Y-%m-%d"),
        Times::Utc if step_us >= DAY_US => utc(t_us, "%b %-d"),
        // The day is shown once, and where it changes.
        Times::Utc if is_first || t_us.is_multiple_of(DAY_US) => utc(t_us, "%b %-d %H:%M"),
        Times::Utc if step_us >= 60_000_000 => utc(t_us, "%H:%M"),
        Times::Utc if step_us >= 1_000_000 => utc(t_us, "%H:%M:%S"),
        Times::Utc => utc(t_us, "%H:%M:%S%.3f"),
    }
}

fn utc(t_us: u64, format: &str) -> String {
    let instant = i64::try_from(t_us).ok().and_then(|t_us| Timestamp::from_microsecond(t_us).ok());
    instant.map_or_else(
        || Micros(t_us).for_people(),
        |instant| instant.to_zoned(TimeZone::UTC).strftime(format).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(span: (u64, u64), times: Times) -> Vec<String> {
        Axis::new(span, 0.0, 100.0).ticks(times).into_iter().map(|(_, words)| words).collect()
    }

    #[test]
    fn ticks_are_few_and_round() {
        assert_eq!(
            words((0, 4_000_000), Times::SinceZero),
            ["0 s", "500 ms", "1 s", "1.5 s", "2 s", "2.5 s", "3 s", "3.5 s", "4 s"]
        );
        assert_eq!(words((0, 600_000_000), Times::SinceZero).len(), 6);
        // 13:55 UTC on a day in 2000.
        let from = 971_186_100_000_000;
        assert_eq!(
            words((from, from + 1_200_000_000), Times::Utc)[..3],
            ["Oct 10 13:55", "14:00", "14:05"]
        );
        let year = 365 * 86_400_000_000;
        assert_eq!(words((from, from + year), Times::Utc).len(), 4);
        let decade = words((1_420_070_400_000_000, 1_735_689_600_000_000), Times::Utc);
        assert!(decade.len() <= 10 && decade[0].starts_with("20"), "{decade:?}");
        assert_eq!(
            words((3_600_000_000, 4_200_000_000), Times::SinceZero)[..2],
            ["1 h", "1 h 2 min"]
        );
        assert!(words((0, u64::MAX), Times::Utc).len() <= 11);
    }
}

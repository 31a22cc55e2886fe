//! By how much advice to come back is spread.

use std::fmt;
use std::time::Duration;

/// By how much `Retry-After` is spread upwards, so that clients that were refused together do not come back together.
///
/// A policy's serving metadata, as [`HeaderStyle`](crate::HeaderStyle) is: decisions stay exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Jitter(u16);

impl Jitter {
    /// No jitter.
    pub const NONE: Self = Self(0);

    /// Up to this share of the wait, in hundredths of a percent; `None` above 10,000.
    #[must_use]
    pub fn new(hundredths: u16) -> Option<Self> {
        (hundredths <= 10_000).then_some(Self(hundredths))
    }

    /// Up to this share of the wait, in percent; more than 100 counts as 100.
    #[must_use]
    pub fn percent(percent: u8) -> Self {
        Self(u16::from(percent.min(100)) * 100)
    }

    /// The share in hundredths of a percent.
    #[must_use]
    pub fn hundredths(self) -> u16 {
        self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The wait, made longer by the part of the share that was drawn: nothing for 0, all of it for `u32::MAX`.
    #[must_use]
    pub fn spread(self, wait: Duration, drawn: u32) -> Duration {
        let most = wait.as_nanos() * u128::from(self.0) / 10_000;
        // A wait has fewer than 2^94 ns, so this does not overflow.
        let part = (most * u128::from(drawn)) >> 32;
        let (seconds, nanos) = (part / 1_000_000_000, part % 1_000_000_000);
        let more = Duration::new(
            u64::try_from(seconds).unwrap_or(u64::MAX),
            u32::try_from(nanos).unwrap_or_default(),
        );
        wait.saturating_add(more)
    }
}

/// As configurations have it: `10%`.
impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 100, self.0 % 100);
        match rest {
            0 => write!(f, "{whole}%"),
            _ if rest % 10 == 0 => write!(f, "{whole}.{}%", rest / 10),
            _ => write!(f, "{whole}.{rest:02}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_upwards_only() {
        let wait = Duration::from_secs(60);
        assert_eq!(Jitter::NONE.spread(wait, u32::MAX), wait);
        let ten = Jitter::percent(10);
        assert_eq!(ten.spread(wait, 0), wait);
        let longest = ten.spread(wait, u32::MAX);
        assert!(longest > Duration::from_millis(65_999) && longest <= Duration::from_secs(66));
        let half = ten.spread(wait, u32::MAX / 2);
        assert!(half > Duration::from_millis(62_999) && half <= Duration::from_secs(63));
        assert_eq!(Jitter::percent(100).spread(Duration::MAX, u32::MAX), Duration::MAX);
        assert_eq!(ten.spread(Duration::ZERO, u32::MAX), Duration::ZERO);
    }

    #[test]
    fn is_written_as_a_percentage() {
        for (hundredths, text) in [(0, "0%"), (1_000, "10%"), (1_250, "12.5%"), (5, "0.05%")] {
            assert_eq!(Jitter::new(hundredths).unwrap().to_string(), text);
        }
        assert_eq!((Jitter::new(10_001), Jitter::percent(255)), (None, Jitter::percent(100)));
    }
}

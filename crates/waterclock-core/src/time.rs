use core::time::Duration;

/// An instant: whole nanoseconds since the Unix epoch.
///
/// Limits that align to the clock (epoch windows, quota, even slots) align to this epoch. Clamped
/// to [`Timestamp::MAX`], the year 2116, so that no sum the algorithms form can overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const ZERO: Self = Self(0);
    /// The last instant: 2^62 − 1 ns, in the year 2116.
    pub const MAX: Self = Self((1 << 62) - 1);

    /// An instant in nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        if nanos > Self::MAX.0 { Self::MAX } else { Self(nanos) }
    }

    /// An instant in microseconds since the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_nanos(micros.saturating_mul(1_000))
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant `by` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn after(self, by: Duration) -> Self {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        Self::from_nanos(self.0.saturating_add(by))
    }
}

use core::num::NonZeroU64;

use crate::algorithm::NEVER;
use crate::arith::{div_ceil, mul};

/// What is left and when there will be more.
#[derive(Clone, Copy)]
pub(crate) enum Room {
    Counted {
        /// `UNBOUNDED` for none.
        remaining: u64,
        /// `NEVER` for none.
        next_unit: u64,
        reset: u64,
    },
    /// A level that falls by `scale` every nanosecond and by `step` for every unit. The numbers need
    /// divisions, which cost more than the rest of a decision: they are made when asked for.
    Draining { level: u64, step: NonZeroU64, scale: NonZeroU64 },
    /// A quota of which `spent` is more than what is lost `into` its window of `per`.
    Losing { spent: u64, per: u64, into: u64 },
}

/// What is left of a limit, as a decision says it.
pub(crate) struct Left {
    pub(crate) remaining: u64,
    pub(crate) next_unit: u64,
    pub(crate) reset: u64,
}

/// The scale is mostly 1, and a division costs more than all the rest.
#[inline(always)]
pub(crate) fn div_ceil_small(time: u64, scale: NonZeroU64) -> u64 {
    if scale.get() == 1 { time } else { time / scale + u64::from(time % scale != 0) }
}

impl Room {
    /// Nothing, ever.
    pub(crate) const NONE: Self = Self::Counted { remaining: 0, next_unit: NEVER, reset: NEVER };

    /// All of its numbers, with one division of a level by its step.
    #[inline]
    pub(crate) fn left(self, limit: u64) -> Left {
        if let Self::Draining { level, step, scale } = self
            && let Some(owed) = level.checked_sub(1).map(|level| level / step + 1)
            && owed <= limit
        {
            return Left {
                remaining: limit - owed,
                next_unit: div_ceil_small(level - (owed - 1) * step.get(), scale),
                reset: div_ceil_small(level, scale),
            };
        }
        let (remaining, next_unit) = (self.remaining(limit), self.next_unit(limit));
        Left { remaining, next_unit, reset: self.reset(limit) }
    }

    /// `UNBOUNDED` for any.
    pub(crate) fn remaining(self, limit: u64) -> u64 {
        match self {
            Self::Counted { remaining, .. } => remaining,
            Self::Draining { level, step, .. } => {
                limit.saturating_sub(div_ceil(level.into(), step.get()))
            }
            Self::Losing { spent, .. } => limit.saturating_sub(spent),
        }
    }

    /// `NEVER` when there is as much as there can be.
    pub(crate) fn next_unit(self, limit: u64) -> u64 {
        match self {
            Self::Counted { next_unit, .. } => next_unit,
            Self::Losing { per, into, .. } => per - into,
            Self::Draining { level: 0, .. } => NEVER,
            Self::Draining { .. } if limit == 0 => NEVER,
            Self::Draining { level, step, scale } => {
                // Units that are owed beyond the limit must go before the next one shows.
                let shown = div_ceil(level.into(), step.get()).min(limit) - 1;
                div_ceil(u128::from(level) - mul(shown, step.get()), scale.get())
            }
        }
    }

    pub(crate) fn reset(self, limit: u64) -> u64 {
        match self {
            Self::Counted { reset, .. } => reset,
            // Where what is lost catches up with what was spent, at the latest at the edge.
            Self::Losing { spent, per, into } => {
                div_ceil(mul(spent, per), limit.max(1)).min(per) - into
            }
            Self::Draining { level, scale, .. } => div_ceil(level.into(), scale.get()),
        }
    }
}

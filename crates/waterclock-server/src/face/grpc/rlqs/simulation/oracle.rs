//! What the bound allows, from the times of admissions alone.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::{DELAY, TTL};

/// Checks every admission against the bound of its policy, over a span that is longer by [`TTL`] and [`DELAY`].
pub(super) enum Oracle {
    /// `capacity + rate · (w + TTL + DELAY)` for every w at once: a meter that drains at the rate. In units · ns.
    Bucket { level: u128, last: Duration, rate: u128, most: u128, per: u128 },
    /// At most twice the limit in every span so much shorter than the window.
    Window { recent: VecDeque<Duration>, span: Duration, most: usize },
}

impl Oracle {
    pub(super) fn bucket(limit: u64, per: Duration, capacity: u64) -> Oracle {
        let (rate, per) = (u128::from(limit), per.as_nanos());
        let most = u128::from(capacity) * per + rate * (TTL + DELAY).as_nanos();
        Oracle::Bucket { level: 0, last: Duration::ZERO, rate, most, per }
    }

    pub(super) fn window(limit: usize, per: Duration) -> Oracle {
        Oracle::Window { recent: VecDeque::new(), span: per - TTL - DELAY, most: 2 * limit }
    }

    /// One request was admitted.
    pub(super) fn admit(&mut self, now: Duration) -> Result<(), String> {
        match self {
            Oracle::Bucket { level, last, rate, most, per } => {
                *level = level.saturating_sub(*rate * (now - *last).as_nanos()) + *per;
                *last = now;
                if *level > *most {
                    return Err(format!("{now:?}: {} units over", (*level - *most).div_ceil(*per)));
                }
            }
            Oracle::Window { recent, span, most } => {
                recent.push_back(now);
                while recent.front().is_some_and(|first| now - *first >= *span) {
                    recent.pop_front();
                }
                if recent.len() > *most {
                    return Err(format!("{now:?}: {} in one window", recent.len()));
                }
            }
        }
        Ok(())
    }
}

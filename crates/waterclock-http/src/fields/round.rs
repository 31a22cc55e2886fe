//! Durations as they are shown: rounded up, so that nobody comes back too early.

use std::time::Duration;

/// Whole seconds.
pub(super) fn seconds_up(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

/// Seconds with three decimals.
pub(super) fn thousandths_up(wait: Duration) -> String {
    let thousandths = wait.as_nanos().div_ceil(1_000_000);
    format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nanosecond_too_many_is_one_more() {
        let ns = Duration::from_nanos;
        assert_eq!(seconds_up(ns(0)), 0);
        assert_eq!(seconds_up(ns(1)), 1);
        assert_eq!(seconds_up(ns(2_000_000_000)), 2);
        assert_eq!(seconds_up(ns(2_000_000_001)), 3);
        assert_eq!(seconds_up(Duration::MAX), u64::MAX);
        assert_eq!(thousandths_up(ns(0)), "0.000");
        assert_eq!(thousandths_up(ns(1)), "0.001");
        assert_eq!(thousandths_up(ns(61_050_000_000)), "61.050");
        assert_eq!(thousandths_up(ns(61_050_000_001)), "61.051");
        assert_eq!(thousandths_up(ns(999_999_999)), "1.000");
    }
}

//! Numbers and times as a glance takes them in.

use std::time::Duration;

/// A rate to one decimal, or to none where it is large.
pub(super) fn rate(per_second: f64) -> String {
    if per_second >= 1_000.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

/// The two largest units: `3d 4h`, `2m 5s`, `7s`.
pub(super) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = parts.iter().position(|(count, _)| *count > 0).unwrap_or(parts.len() - 1);
    let shown = parts.iter().skip(first).take(2).map(|(count, unit)| format!("{count}{unit}"));
    shown.collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_rates() {
        for (seconds, shown) in
            [(0, "0s"), (59, "59s"), (125, "2m 5s"), (3_600, "1h 0m"), (273_600, "3d 4h")]
        {
            assert_eq!(span(Duration::from_secs(seconds)), shown);
        }
        assert_eq!(
            (rate(0.04), rate(999.96), rate(12_345.6)),
            ("0.0".into(), "1000.0".into(), "12346".into())
        );
    }
}

//! Seconds in decimal, as servers write them.

use std::time::Duration;

/// Digits, and maybe decimals, of which those beyond nanoseconds count as one more. A number that is too
/// large is as large as can be: it is a long wait all the same.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (whole, decimals) = match text.split_once('.') {
        Some((whole, decimals)) => (digits(whole)?, digits(decimals)?),
        None => (digits(text)?, ""),
    };
    let whole = whole.parse().unwrap_or(u64::MAX);
    let (nanos, beyond) = decimals.split_at(decimals.len().min(9));
    let more = beyond.bytes().any(|digit| digit != b'0');
    let nanos: u64 = format!("{nanos:0<9}").parse().ok()?;
    Some(Duration::from_secs(whole).saturating_add(Duration::from_nanos(nanos + u64::from(more))))
}

pub(super) fn is_zero(text: &str) -> bool {
    digits(text).is_some_and(|digits| digits.bytes().all(|digit| digit == b'0'))
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_up_and_large_numbers_stay_large() {
        let ns = |nanos| Some(Duration::from_nanos(nanos));
        assert_eq!(seconds("0"), ns(0));
        assert_eq!(seconds("007"), ns(7_000_000_000));
        assert_eq!(seconds("1.5"), ns(1_500_000_000));
        assert_eq!(seconds("0.000000001"), ns(1));
        assert_eq!(seconds("0.0000000001"), ns(1));
        assert_eq!(seconds("0.0000000010"), ns(1));
        assert_eq!(seconds("0.99999999900001"), ns(1_000_000_000));
        assert_eq!(seconds("99999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(seconds("18446744073709551615.9999999999"), Some(Duration::MAX));
    }

    #[test]
    fn what_is_no_number_is_none() {
        for text in
            ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", " 1", "١", "0x10", "1.2.3", "NaN"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
        assert!(is_zero("0") && is_zero("000"));
        assert!(!is_zero("") && !is_zero("1") && !is_zero("-0") && !is_zero("0.0"));
    }
}

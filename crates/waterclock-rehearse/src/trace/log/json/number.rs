//! Numbers as the line writes them, without a float between.

use crate::expr::{Ratio, Value};

/// What digits are worth, exactly where that can be had. What is too large or too fine to work with is a
/// text, which can still be a key: two numbers that differ stay two.
pub(super) fn number(written: &str) -> Value<'_> {
    let is_whole = !written.contains(['.', 'e', 'E']);
    let rounded = || {
        let float = written.parse::<f64>().ok().filter(|_| !is_whole)?;
        Ratio::parse(&float.to_string())
    };
    Ratio::parse(written).or_else(rounded).map_or(Value::text(written), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stay() {
        for (written, expected) in [
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551617", "18446744073709551617"),
            ("-9223372036854775809", "-9223372036854775809"),
            ("2.50", "2.5"),
            ("-0", "0"),
            ("1.5e3", "1500"),
            ("25E-1", "2.5"),
        ] {
            assert_eq!(number(written), Ratio::parse(expected).map(Value::Number).unwrap());
        }
        let long = "9".repeat(50);
        for written in [long.as_str(), "1e300", "1e999", "-1e999", "1e-300"] {
            assert_eq!(number(written), Value::text(written));
        }
    }
}

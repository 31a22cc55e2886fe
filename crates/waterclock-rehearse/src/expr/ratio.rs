//! Numbers without rounding: 1.1 · 10 is 11, and a cost of 11 is not 12.

use std::cmp::Ordering;
use std::fmt;

/// How many digits after the point are written where there is no end to them.
const DIGITS: usize = 9;

/// A quotient of whole numbers, reduced, the lower one positive. Operations that would not fit give nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    over: i128,
    under: i128,
}

impl Ratio {
    pub fn whole(number: i128) -> Ratio {
        Ratio { over: number, under: 1 }
    }

    fn new(over: i128, under: i128) -> Option<Ratio> {
        if under == 1 {
            return Some(Ratio::whole(over));
        }
        let divisor = i128::try_from(gcd(over.unsigned_abs(), under.unsigned_abs())).ok()?;
        let divisor = if under < 0 { -divisor } else { divisor };
        Some(Ratio { over: over.checked_div(divisor)?, under: under.checked_div(divisor)? })
    }

    /// Reads digits with at most one point and a sign.
    pub fn parse(text: &str) -> Option<Ratio> {
        let text = text.trim_ascii();
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (mut over, mut under) = (0i128, 1i128);
        for byte in whole.bytes() {
            over = with_digit(over, byte)?;
        }
        for byte in fraction.trim_end_matches('0').bytes() {
            over = with_digit(over, byte)?;
            under = under.checked_mul(10)?;
        }
        if fraction.bytes().any(|byte| !byte.is_ascii_digit()) {
            return None;
        }
        Ratio::new(if is_negative { -over } else { over }, under)
    }

    pub fn plus(self, other: Ratio) -> Option<Ratio> {
        if self.under == other.under {
            return Ratio::new(self.over.checked_add(other.over)?, self.under);
        }
        let (one, two) = (self.over.checked_mul(other.under)?, other.over.checked_mul(self.under)?);
        Ratio::new(one.checked_add(two)?, self.under.checked_mul(other.under)?)
    }

    pub fn negative(self) -> Option<Ratio> {
        Some(Ratio { over: self.over.checked_neg()?, under: self.under })
    }

    pub fn minus(self, other: Ratio) -> Option<Ratio> {
        self.plus(other.negative()?)
    }

    pub fn times(self, other: Ratio) -> Option<Ratio> {
        Ratio::new(self.over.checked_mul(other.over)?, self.under.checked_mul(other.under)?)
    }

    /// Nothing also where the other is zero.
    pub fn over(self, other: Ratio) -> Option<Ratio> {
        let inverse =
            (other.over != 0).then_some(Ratio { over: other.under, under: other.over })?;
        self.times(inverse)
    }

    pub fn is_zero(self) -> bool {
        self.over == 0
    }

    pub fn compare(self, other: Ratio) -> Option<Ordering> {
        if self.under == other.under {
            return Some(self.over.cmp(&other.over));
        }
        let (one, two) = (self.over.checked_mul(other.under)?, other.over.checked_mul(self.under)?);
        Some(one.cmp(&two))
    }

    pub fn floor(self) -> i128 {
        self.over.div_euclid(self.under)
    }

    /// The smallest whole number that is not less.
    pub fn ceil(self) -> i128 {
        self.floor() + i128::from(self.over.rem_euclid(self.under) != 0)
    }
}

fn with_digit(number: i128, byte: u8) -> Option<i128> {
    let digit = byte.is_ascii_digit().then(|| i128::from(byte - b'0'))?;
    number.checked_mul(10)?.checked_add(digit)
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.under == 1 {
            return write!(f, "{}", self.over);
        }
        let under = self.under.unsigned_abs();
        let (whole, mut rest) =
            (self.over.unsigned_abs() / under, self.over.unsigned_abs() % under);
        let sign = if self.over < 0 { "-" } else { "" };
        write!(f, "{sign}{whole}.")?;
        for _ in 0..DIGITS {
            let Some(shifted) = rest.checked_mul(10) else { break };
            write!(f, "{}", shifted / under)?;
            rest = shifted % under;
            if rest == 0 {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Ratio {
        Ratio::parse(text).unwrap()
    }

    #[test]
    fn nothing_is_rounded() {
        assert_eq!(number("1.1").times(number("10")).unwrap(), number("11"));
        assert_eq!(number("0.1").plus(number("0.2")).unwrap(), number("0.30"));
        let third = number("2").over(number("3")).unwrap();
        assert_eq!(third.times(number("3")).unwrap(), number("2"));
        assert_eq!(third.ceil(), 1);
        assert_eq!(number("1").over(number("1073741824")).unwrap().ceil(), 1);
        assert_eq!((number("-1.5").floor(), number("-1.5").ceil()), (-2, -1));
        assert_eq!(number("5").over(number("-2")).unwrap(), number("-2.5"));
    }

    #[test]
    fn what_is_no_number_or_does_not_fit_is_none() {
        for text in ["", ".", "-", "1e3", "0x1", "1.2.3", "१", "1.x", "x1", "--1", "1,5", "1 2"] {
            assert_eq!(Ratio::parse(text), None, "{text}");
        }
        assert_eq!(Ratio::parse(&"9".repeat(40)), None);
        assert_eq!(number("1").over(number("0.00")), None);
        assert_eq!(Ratio::whole(i128::MAX).plus(Ratio::whole(1)), None);
        assert_eq!(Ratio::whole(i128::MIN).negative(), None);
        assert_eq!(Ratio::whole(i128::MIN).over(Ratio::whole(-3)), None);
    }

    #[test]
    fn written_as_people_do() {
        for text in ["0", "-3", "2.5", "-0.125", "12345678901234567890"] {
            assert_eq!(number(text).to_string(), text);
        }
        assert_eq!(number("1").over(number("3")).unwrap().to_string(), "0.333333333");
    }
}

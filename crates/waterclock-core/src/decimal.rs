//! Numbers without rounding: 1.1 · 10 is 11, and a cost of 11 is not 12.

use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

use crate::arith::gcd;

/// How many digits after the point are written of a quotient that has no end.
const SHOWN_PLACES: usize = 9;
/// The most digits, and the most places, of a number in scientific notation.
const SCIENTIFIC_DIGITS: usize = 18;

/// An exact number: a decimal, or the quotient of two.
///
/// Arithmetic that does not fit 128 bits returns `None`; nothing is ever rounded except by
/// [`floor`](Decimal::floor), [`ceil`](Decimal::ceil) and `Display`, which ends after nine places.
///
/// ```
/// use waterclock_core::Decimal;
///
/// let tenth: Decimal = "0.1".parse().unwrap();
/// assert_eq!(tenth.times(Decimal::from(10)), Some(Decimal::ONE));
/// let third = Decimal::ONE.over(Decimal::from(3)).unwrap();
/// assert_eq!(third.times(Decimal::from(3)), Some(Decimal::ONE));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// In lowest terms, the sign here.
    numerator: i128,
    /// Positive.
    denominator: i128,
}

/// Why a text is not a [`Decimal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecimalError {
    /// Not digits with at most one point among them.
    NoNumber,
    /// A number with more digits than fit.
    ManyDigits,
}

impl fmt::Display for DecimalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumber => "not a decimal number such as 0.5, 2 or 1.25",
            Self::ManyDigits => "the number has too many digits",
        })
    }
}

impl core::error::Error for DecimalError {}

impl Decimal {
    /// 0.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };
    /// 1.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// Reads digits with at most one point, and an exponent: `12`, `12.5`, `.5`, `1e3`. No sign; at most 18
    /// digits before the exponent, and 18 places after it is applied.
    #[must_use]
    pub fn parse_scientific(text: &str) -> Option<Self> {
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        let significant = all().skip_while(|byte| *byte == b'0').count();
        if digits.is_empty()
            || significant > SCIENTIFIC_DIGITS
            || all().next().is_none()
            || !all().all(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        let mantissa = all().try_fold(0, with_digit).ok()?;
        let places = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        if !(-18..).contains(&places) && mantissa != 0 {
            return None;
        }
        let number = match u32::try_from(places) {
            Ok(places) => trimmed(mantissa, places)?,
            Err(_) if mantissa == 0 => Self::ZERO,
            Err(_) => Self::from_parts(mantissa.checked_mul(power(places.unsigned_abs())?)?, 1)?,
        };
        number.decimal_places().map(|_| number)
    }

    fn from_parts(numerator: i128, denominator: i128) -> Option<Self> {
        if denominator == 1 {
            return Some(Self { numerator, denominator });
        }
        let divisor = gcd(numerator.unsigned_abs(), denominator.unsigned_abs()).max(1);
        let divisor = i128::try_from(divisor).ok()?;
        let divisor = if denominator < 0 { -divisor } else { divisor };
        Some(Self {
            numerator: numerator.checked_div(divisor)?,
            denominator: denominator.checked_div(divisor)?,
        })
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Option<Self> {
        if self.denominator == other.denominator {
            let sum = self.numerator.checked_add(other.numerator)?;
            return Self::from_parts(sum, self.denominator);
        }
        let (one, two) = self.common(other)?;
        Self::from_parts(one.checked_add(two)?, self.denominator.checked_mul(other.denominator)?)
    }

    /// The difference.
    #[must_use]
    pub fn minus(self, other: Self) -> Option<Self> {
        self.plus(other.negative()?)
    }

    /// The number with the other sign.
    #[must_use]
    pub fn negative(self) -> Option<Self> {
        Some(Self { numerator: self.numerator.checked_neg()?, denominator: self.denominator })
    }

    /// The product.
    #[must_use]
    pub fn times(self, other: Self) -> Option<Self> {
        let numerator = self.numerator.checked_mul(other.numerator)?;
        Self::from_parts(numerator, self.denominator.checked_mul(other.denominator)?)
    }

    /// The quotient; `None` also where the divisor is zero.
    #[must_use]
    pub fn over(self, other: Self) -> Option<Self> {
        let inverse = Self { numerator: other.denominator, denominator: other.numerator };
        if other.is_zero() { None } else { self.times(inverse) }
    }

    /// Which of the two is larger; `None` where comparing them does not fit.
    #[must_use]
    pub fn compare(self, other: Self) -> Option<Ordering> {
        if self.denominator == other.denominator {
            return Some(self.numerator.cmp(&other.numerator));
        }
        let (one, two) = self.common(other)?;
        Some(one.cmp(&two))
    }

    /// Both numerators over the product of the denominators.
    fn common(self, other: Self) -> Option<(i128, i128)> {
        let one = self.numerator.checked_mul(other.denominator)?;
        Some((one, other.numerator.checked_mul(self.denominator)?))
    }

    /// Whether it is 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.numerator == 0
    }

    /// Whether it is below 0.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.numerator < 0
    }

    /// The largest whole number that is not larger.
    #[must_use]
    pub fn floor(self) -> i128 {
        self.numerator.div_euclid(self.denominator)
    }

    /// The smallest whole number that is not smaller.
    #[must_use]
    pub fn ceil(self) -> i128 {
        self.floor() + i128::from(self.numerator.rem_euclid(self.denominator) != 0)
    }

    /// The number itself where it is whole and not negative.
    #[must_use]
    pub fn to_whole(self) -> Option<u64> {
        if self.denominator == 1 { u64::try_from(self.numerator).ok() } else { None }
    }

    /// How many places it takes to write it without rounding, if 18 are enough.
    pub(crate) fn decimal_places(self) -> Option<u32> {
        (0..=18).find(|places| power(*places).is_some_and(|power| power % self.denominator == 0))
    }

    /// The number times 10^places, where that is whole.
    pub(crate) fn mantissa(self, places: u32) -> Option<i128> {
        let shifted = power(places)?.checked_div(self.denominator)?;
        self.numerator.checked_mul(shifted)
    }
}

fn power(places: u32) -> Option<i128> {
    10i128.checked_pow(places)
}

/// mantissa / 10^places, where the zeros at the end may be more than fit.
fn trimmed(mut mantissa: i128, mut places: u32) -> Option<Decimal> {
    while places > 0 && mantissa % 10 == 0 && mantissa != 0 {
        (mantissa, places) = (mantissa / 10, places - 1);
    }
    if mantissa == 0 { Some(Decimal::ZERO) } else { Decimal::from_parts(mantissa, power(places)?) }
}

fn with_digit(number: i128, byte: u8) -> Result<i128, DecimalError> {
    if !byte.is_ascii_digit() {
        return Err(DecimalError::NoNumber);
    }
    number
        .checked_mul(10)
        .and_then(|shifted| shifted.checked_add((byte - b'0').into()))
        .ok_or(DecimalError::ManyDigits)
}

impl FromStr for Decimal {
    type Err = DecimalError;

    /// Digits with at most one point and a sign; spaces around them are ignored.
    fn from_str(text: &str) -> Result<Self, DecimalError> {
        let text = text.trim_ascii();
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        if all().next().is_none() || !all().all(|byte| byte.is_ascii_digit()) {
            return Err(DecimalError::NoNumber);
        }
        let fraction = fraction.trim_end_matches('0');
        let magnitude = whole.bytes().chain(fraction.bytes()).try_fold(0, with_digit)?;
        let denominator = u32::try_from(fraction.len()).ok().and_then(power);
        denominator
            .and_then(|under| {
                Self::from_parts(if is_negative { -magnitude } else { magnitude }, under)
            })
            .ok_or(DecimalError::ManyDigits)
    }
}

macro_rules! from_whole {
    ($($whole:ty),*) => {$(
        impl From<$whole> for Decimal {
            fn from(whole: $whole) -> Self {
                Self { numerator: whole.into(), denominator: 1 }
            }
        }
    )*};
}
from_whole!(i32, u32, i64, u64, i128);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.denominator == 1 {
            return write!(f, "{}", self.numerator);
        }
        let (over, under) = (self.numerator.unsigned_abs(), self.denominator.unsigned_abs());
        let (whole, mut rest) = (over / under, over % under);
        let sign = if self.numerator < 0 { "-" } else { "" };
        write!(f, "{sign}{whole}.")?;
        for _ in 0..SHOWN_PLACES {
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
    use alloc::string::ToString as _;

    use super::*;

    fn number(text: &str) -> Decimal {
        text.parse().unwrap()
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
        assert_eq!(number("1.5").compare(number("1.49")), Some(Ordering::Greater));
    }

    #[test]
    fn what_is_no_number_or_does_not_fit_is_an_error() {
        for text in ["", ".", "-", "1e3", "0x1", "1.2.3", "१", "1.x", "x1", "--1", "1,5", "1 2"] {
            assert_eq!(text.parse::<Decimal>(), Err(DecimalError::NoNumber), "{text}");
        }
        assert_eq!("9".repeat(40).parse::<Decimal>(), Err(DecimalError::ManyDigits));
        assert_eq!(number("1").over(number("0.00")), None);
        assert_eq!(Decimal::from(i128::MAX).plus(Decimal::ONE), None);
        assert_eq!(Decimal::from(i128::MIN).negative(), None);
        assert_eq!(Decimal::from(i128::MIN).over(Decimal::from(-3)), None);
    }

    #[test]
    fn shown_as_people_write_numbers() {
        for text in ["0", "-3", "2.5", "-0.125", "12345678901234567890"] {
            assert_eq!(number(text).to_string(), text);
        }
        assert_eq!(number("1").over(number("3")).unwrap().to_string(), "0.333333333");
    }

    #[test]
    fn multiplies_scientific_numbers_to_whole_ones() {
        let times = |text: &str, by: u64| {
            Decimal::parse_scientific(text)?.times(Decimal::from(by))?.to_whole()
        };
        assert_eq!(times("0.1", 10), Some(1));
        assert_eq!(times("1.5", 1000), Some(1500));
        assert_eq!(times("1.5e3", 1), Some(1500));
        assert_eq!(times("5e-1", 2), Some(1));
        assert_eq!(times("0.000", 7), Some(0));
        assert_eq!(times("0.0005", 1000), None);
        assert_eq!(times("1e18", 1), Some(1_000_000_000_000_000_000));
    }

    #[test]
    fn refuses_what_is_no_scientific_number() {
        for text in [
            "",
            ".",
            "-1",
            "+1",
            "nan",
            "inf",
            "1e99",
            "1.2.3",
            "1_000",
            "1234567890123456789",
            "1e-19",
        ] {
            assert_eq!(Decimal::parse_scientific(text), None, "{text}");
        }
    }
}

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::{Decimal, DecimalError, MAX_PERIOD, MAX_UNITS};

/// The most digits, before and after the point together; also the most digits after it.
const MOST_DIGITS: u32 = 18;

/// How much stricter a policy is for a caller, as an exact decimal: 2 halves what is admitted, 0.5 doubles
/// it, 0 disables the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Factor(Decimal);

/// Why a text is not a valid factor. Displays as one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FactorError {
    /// It is below zero.
    Negative,
    /// It is not a finite decimal number.
    NoNumber,
    /// It has more than 18 digits.
    ManyDigits,
}

impl fmt::Display for FactorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Negative => {
                "a factor must not be negative; 0 disables, 0.5 doubles what is admitted"
            }
            Self::NoNumber => "a factor must be a decimal number such as 0.5, 2 or 1.25",
            Self::ManyDigits => {
                "a factor must have at most 18 digits, before and after the point together"
            }
        })
    }
}

impl core::error::Error for FactorError {}

impl Factor {
    /// Factor 0: no limits.
    pub const ZERO: Self = Self(Decimal::ZERO);
    /// Factor 1: limits stay as they are.
    pub const ONE: Self = Self(Decimal::ONE);

    /// The exact product of two factors.
    pub fn times(self, other: Self) -> Result<Self, FactorError> {
        self.0.times(other.0).ok_or(FactorError::ManyDigits)?.try_into()
    }

    /// Whether it disables the limits.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_one(self) -> bool {
        self == Self::ONE
    }

    /// A number of units divided by this factor, rounded up, at least 1. Zero units stay zero: a limit that
    /// admits nothing still admits nothing. `None` beyond 2^53 − 1, and for a factor of zero.
    #[must_use]
    pub fn units(self, units: u64) -> Option<u64> {
        if self.is_one() || units == 0 {
            return (!self.is_zero()).then_some(units);
        }
        let scaled = Decimal::from(units).over(self.0)?.ceil();
        u64::try_from(scaled).ok().filter(|units| *units <= MAX_UNITS)
    }

    /// A time between two events multiplied by this factor, rounded up to a whole microsecond. `None`
    /// beyond 100 years, and for a factor of zero.
    #[must_use]
    pub fn interval(self, interval: Duration) -> Option<Duration> {
        if self.is_one() || self.is_zero() {
            return self.is_one().then_some(interval);
        }
        let nanos = i128::try_from(interval.as_nanos()).ok()?;
        let micros = Decimal::from(nanos).times(self.0)?.over(Decimal::from(1_000))?.ceil();
        let interval = Duration::from_micros(u64::try_from(micros).ok()?);
        Some(interval).filter(|interval| *interval <= MAX_PERIOD)
    }
}

impl TryFrom<Decimal> for Factor {
    type Error = FactorError;

    fn try_from(number: Decimal) -> Result<Self, FactorError> {
        if number.is_negative() {
            return Err(FactorError::Negative);
        }
        let places = number.decimal_places().ok_or(FactorError::ManyDigits)?;
        let fits = number.mantissa(places).is_some_and(|digits| digits < 10i128.pow(MOST_DIGITS));
        if fits { Ok(Self(number)) } else { Err(FactorError::ManyDigits) }
    }
}

impl FromStr for Factor {
    type Err = FactorError;

    /// Digits with at most one point among them: `2`, `0.5`, `.5`.
    fn from_str(text: &str) -> Result<Self, FactorError> {
        if text.starts_with('-') {
            return Err(FactorError::Negative);
        }
        if text.bytes().any(|byte| byte != b'.' && !byte.is_ascii_digit()) {
            return Err(FactorError::NoNumber);
        }
        let number = text.parse::<Decimal>().map_err(|error| match error {
            DecimalError::NoNumber => FactorError::NoNumber,
            DecimalError::ManyDigits => FactorError::ManyDigits,
        })?;
        number.try_into()
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.0.decimal_places().unwrap_or(0);
        let (mantissa, power) = (self.0.mantissa(places).unwrap_or(0), 10i128.pow(places));
        match usize::try_from(places) {
            Ok(places) if places > 0 => {
                write!(f, "{}.{:0places$}", mantissa / power, mantissa % power)
            }
            _ => write!(f, "{mantissa}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    fn factor(text: &str) -> Factor {
        text.parse().unwrap()
    }

    #[test]
    fn reads_and_shows_decimals() {
        for (text, shown) in [
            ("0.5", "0.5"),
            ("2", "2"),
            ("1.250", "1.25"),
            (".5", "0.5"),
            ("3.", "3"),
            ("007", "7"),
            ("0.000", "0"),
            ("100", "100"),
            ("0.000000000000000001", "0.000000000000000001"),
            ("999999999999999999", "999999999999999999"),
            ("0.10000000000000000000000000000", "0.1"),
        ] {
            assert_eq!(factor(text).to_string(), shown, "{text}");
        }
        assert!(factor("0.0").is_zero() && factor("1.00").is_one() && !factor("1.01").is_one());
    }

    #[test]
    fn refuses_what_is_none() {
        for (text, why) in [
            ("-1", FactorError::Negative),
            ("-0.5", FactorError::Negative),
            ("", FactorError::NoNumber),
            (".", FactorError::NoNumber),
            ("NaN", FactorError::NoNumber),
            ("inf", FactorError::NoNumber),
            ("1e3", FactorError::NoNumber),
            ("+1", FactorError::NoNumber),
            ("1.2.3", FactorError::NoNumber),
            ("1 ", FactorError::NoNumber),
            ("1000000000000000000", FactorError::ManyDigits),
            ("0.0000000000000000001", FactorError::ManyDigits),
            ("1.2345678901234567891", FactorError::ManyDigits),
            ("99999999999999999999999999999999", FactorError::ManyDigits),
        ] {
            assert_eq!(text.parse::<Factor>(), Err(why), "{text}");
        }
    }

    #[test]
    fn multiplies_exactly_or_not_at_all() {
        assert_eq!(factor("0.5").times(factor("4")), Ok(factor("2")));
        assert_eq!(factor("0.1").times(factor("0.2")), Ok(factor("0.02")));
        assert!(factor("0").times(factor("0.000000000000000001")).unwrap().is_zero());
        let tiny = factor("0.0000000001");
        assert_eq!(tiny.times(tiny), Err(FactorError::ManyDigits));
    }

    #[test]
    fn divides_units_and_rounds_them_up() {
        for (by, units, scaled) in [
            ("0.5", 10, Some(20)),
            ("2", 5, Some(3)),
            ("3", 1, Some(1)),
            ("1000", 7, Some(1)),
            ("0.3", 10, Some(34)),
            ("1", MAX_UNITS, Some(MAX_UNITS)),
            ("0.9", MAX_UNITS, None),
            ("0.000000000000000001", 1, None),
            ("2", 0, Some(0)),
            ("0", 10, None),
            ("0", 0, None),
        ] {
            assert_eq!(factor(by).units(units), scaled, "{units} by {by}");
        }
    }

    #[test]
    fn multiplies_intervals_and_rounds_them_up() {
        let us = Duration::from_micros;
        for (by, interval, scaled) in [
            ("0.5", us(1_000_000), Some(us(500_000))),
            ("1.5", us(1), Some(us(2))),
            ("0.000001", us(10), Some(us(1))),
            ("0.333333", us(1_000_000), Some(us(333_333))),
            ("0.3333333", us(1_000_000), Some(us(333_334))),
            ("1", Duration::from_nanos(1), Some(Duration::from_nanos(1))),
            ("2", Duration::from_nanos(1), Some(us(1))),
            ("1.000001", MAX_PERIOD, None),
            ("999999999999999999", MAX_PERIOD, None),
            ("0", us(1), None),
        ] {
            assert_eq!(factor(by).interval(interval), scaled, "{interval:?} by {by}");
        }
    }
}

//! Decimals kept exactly: 0.1 is one tenth, not the nearest double.

use waterclock::Factor;

/// `mantissa / 10^scale`, without trailing zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    mantissa: u128,
    scale: u32,
}

impl Decimal {
    /// `12`, `12.5`, `.5`, `1e3`; nothing else, and no sign.
    pub(crate) fn parse(text: &str) -> Option<Decimal> {
        let (digits, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = format!("{whole}{fraction}");
        // 18 digits and 18 places are more than any setting means, and cannot overflow below.
        let significant = all.trim_start_matches('0');
        if all.is_empty()
            || significant.len() > 18
            || !all.bytes().all(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        let mut mantissa: u128 =
            if significant.is_empty() { 0 } else { significant.parse().ok()? };
        let mut scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        while (-18..0).contains(&scale) {
            (mantissa, scale) = (mantissa * 10, scale + 1);
        }
        while mantissa.is_multiple_of(10) && scale > 0 {
            (mantissa, scale) = (mantissa / 10, scale - 1);
        }
        let scale = u32::try_from(scale).ok().filter(|scale| *scale <= 18)?;
        Some(Decimal { mantissa, scale })
    }

    /// The product with a whole number, where that is a whole number too.
    pub(crate) fn times(self, factor: u64) -> Option<u64> {
        let product = self.mantissa.checked_mul(u128::from(factor))?;
        let divisor = 10u128.pow(self.scale);
        product.is_multiple_of(divisor).then(|| u64::try_from(product / divisor).ok())?
    }

    /// The least whole number that is not smaller, where it fits.
    pub(crate) fn ceil(self) -> Option<u64> {
        u64::try_from(self.mantissa.div_ceil(10u128.pow(self.scale))).ok()
    }

    pub(crate) fn is_below_one(self) -> bool {
        self.mantissa < 10u128.pow(self.scale)
    }

    /// As the library takes it, where that has as many digits.
    pub(crate) fn factor(self) -> Option<Factor> {
        let over = waterclock::Decimal::from(i128::try_from(self.mantissa).ok()?);
        over.over(10i128.pow(self.scale).into()).and_then(|number| Factor::try_from(number).ok())
    }

    /// Whether the decimal is larger than this whole number.
    pub(crate) fn exceeds(self, whole: u64) -> bool {
        self.mantissa > u128::from(whole) * 10u128.pow(self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiplies_exactly() {
        let times =
            |text: &str, factor| Decimal::parse(text).and_then(|decimal| decimal.times(factor));
        assert_eq!(times("0.1", 10), Some(1));
        assert_eq!(times("1.5", 1000), Some(1500));
        assert_eq!(times("1.5e3", 1), Some(1500));
        assert_eq!(times("5e-1", 2), Some(1));
        assert_eq!(times("0.000", 7), Some(0));
        assert_eq!(times("0.0005", 1000), None);
    }

    #[test]
    fn rounds_up() {
        for (text, whole, below) in [
            ("0", 0, true),
            ("0.1", 1, true),
            ("0.999", 1, true),
            ("1", 1, false),
            ("1.5", 2, false),
        ] {
            let decimal = Decimal::parse(text).unwrap();
            assert_eq!((decimal.ceil(), decimal.is_below_one()), (Some(whole), below), "{text}");
        }
        assert_eq!(Decimal::parse("1e18").unwrap().factor(), None);
        assert_eq!(Decimal::parse("5e-1").unwrap().factor(), "0.5".parse().ok());
    }

    #[test]
    fn refuses_what_is_no_decimal() {
        for text in
            ["", ".", "-1", "+1", "nan", "inf", "1e99", "1.2.3", "1_000", "1234567890123456789"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }
}

//! Exact division that saturates instead of overflowing.

/// `⌈a / b⌉`, at most `u64::MAX`. `b` is never zero: constructors see to it.
#[inline]
pub(crate) fn div_ceil(a: u128, b: u64) -> u64 {
    // Almost every dividend fits a word, and a word divides several times faster.
    if let Ok(a) = u64::try_from(a) {
        return a.div_ceil(b);
    }
    u64::try_from(a.div_ceil(u128::from(b))).unwrap_or(u64::MAX)
}

/// `⌊a / b⌋`, at most `u64::MAX`.
#[inline]
pub(crate) fn div_floor(a: u128, b: u64) -> u64 {
    if let Ok(a) = u64::try_from(a) {
        return a / b;
    }
    u64::try_from(a / u128::from(b)).unwrap_or(u64::MAX)
}

/// A full-width product.
#[inline]
pub(crate) fn mul(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

pub(crate) const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

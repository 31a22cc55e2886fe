//! Exact division that saturates instead of overflowing.

use core::num::NonZeroU64;

/// `⌈a / b⌉`, at most `u64::MAX`.
#[inline]
pub(crate) fn div_ceil(a: u128, b: u64) -> u64 {
    let b = divisor(b);
    // Almost every dividend fits a word, and a word divides several times faster.
    if let Ok(a) = u64::try_from(a) {
        return a / b + u64::from(a % b != 0);
    }
    u64::try_from(a.div_ceil(u128::from(b.get()))).unwrap_or(u64::MAX)
}

/// `⌊a / b⌋`, at most `u64::MAX`.
#[inline]
pub(crate) fn div_floor(a: u128, b: u64) -> u64 {
    let b = divisor(b);
    if let Ok(a) = u64::try_from(a) {
        return a / b;
    }
    u64::try_from(a / u128::from(b.get())).unwrap_or(u64::MAX)
}

/// `⌊a / b⌋`, at most `u64::MAX`, and what is left of `a`.
#[inline]
pub(crate) fn div_rem(a: u128, b: u64) -> (u64, u64) {
    let b = divisor(b);
    if let Ok(a) = u64::try_from(a) {
        return (a / b, a % b);
    }
    let wide = u128::from(b.get());
    (u64::try_from(a / wide).unwrap_or(u64::MAX), u64::try_from(a % wide).unwrap_or(0))
}

/// Constructors see to it that nothing divides by zero; with that in the type, no panic is compiled in.
#[inline]
fn divisor(b: u64) -> NonZeroU64 {
    NonZeroU64::new(b).unwrap_or(NonZeroU64::MIN)
}

/// A full-width product.
#[inline]
pub(crate) fn mul(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// The greatest common divisor; the other number where one is zero.
pub(crate) const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Two numbers divided by what they have in common, and that.
pub(crate) fn lowest_terms(a: u64, b: u64) -> (u64, u64, u64) {
    let common = u64::try_from(gcd(a.into(), b.into())).unwrap_or(1).max(1);
    (a / common, b / common, common)
}

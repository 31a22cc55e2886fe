//! limitador, with the same quota as the others.

use limitador::RateLimiter;
use limitador::limit::{Expression, Limit, Predicate};

use crate::keys::{KEYS, NARROW, WIDE};
use crate::waterclock::{NARROW_POLICY, WIDE_POLICY};

/// A limiter in memory that counts per value of an expression, in two namespaces.
pub fn limiter(user: &str) -> Result<RateLimiter, crate::Error> {
    let limiter = RateLimiter::new(2 * KEYS);
    let conditions: [Predicate; 0] = [];
    let by = |user: &str| Expression::try_from(user).map_err(|error| error.to_string());
    for (namespace, quota) in [(WIDE_POLICY, WIDE), (NARROW_POLICY, NARROW)] {
        let (limit, seconds) = (quota.limit, quota.seconds);
        limiter.add_limit(Limit::new(namespace, limit, seconds, conditions.clone(), [by(user)?]));
    }
    Ok(limiter)
}

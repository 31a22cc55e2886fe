//! limitador, set like everybody else.

use limitador::RateLimiter;
use limitador::limit::{Expression, Limit, Predicate};

use crate::keys::{KEYS, WIDE};
use crate::tollgate::{NARROW_POLICY, WIDE_POLICY};

/// A limiter in memory that counts per value of an expression, in two namespaces.
pub fn limiter(user: &str) -> Result<RateLimiter, crate::Error> {
    let limiter = RateLimiter::new(2 * KEYS);
    let conditions: [Predicate; 0] = [];
    let by = |user: &str| Expression::try_from(user).map_err(|error| error.to_string());
    let (limit, seconds) = (WIDE.limit, WIDE.seconds);
    limiter.add_limit(Limit::new(WIDE_POLICY, limit, seconds, conditions.clone(), [by(user)?]));
    limiter.add_limit(Limit::new(NARROW_POLICY, 1, 3_600, conditions, [by(user)?]));
    Ok(limiter)
}

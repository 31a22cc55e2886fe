//! Numbers that come with a call instead of the configuration.

use std::fmt;
use std::time::Duration;

/// Units per period, in place of those of a policy's first limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Units per period.
    pub limit: u64,
    /// The period.
    pub per: Duration,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}us", self.limit, self.per.as_micros())
    }
}

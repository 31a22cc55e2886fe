//! The longest wait that anybody was advised.

use std::fmt;

use crate::picture::at_a_glance;

/// The longest so far; never, if once no wait would have helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    us: u64,
    is_never: bool,
}

impl Longest {
    pub fn add(&mut self, wait_us: Option<u64>) {
        self.us = self.us.max(wait_us.unwrap_or(0));
        self.is_never |= wait_us.is_none();
    }

    /// The longest of these and one more.
    pub fn and(mut self, wait_us: Option<u64>) -> Longest {
        self.add(wait_us);
        self
    }

    /// As a number; there is none for never.
    pub fn us(&self) -> Option<u64> {
        (!self.is_never).then_some(self.us)
    }

    /// The longest of those that would have helped.
    pub fn in_time_us(&self) -> u64 {
        self.us
    }

    pub fn is_never(&self) -> bool {
        self.is_never
    }
}

impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.us() {
            Some(us) => at_a_glance(us).fmt(f),
            None => f.write_str("never"),
        }
    }
}

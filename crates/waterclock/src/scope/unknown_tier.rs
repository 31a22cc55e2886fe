//! The error about a tier that a policy does not have.

use std::fmt;

/// The most tiers that the sentence lists.
const MOST_SHOWN: usize = 8;
/// The longest name that the sentence repeats, in characters.
const LONGEST: usize = 64;

/// A request names a tier that the policy does not have, and the policy has no default tier. Displays as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTier {
    policy: Box<str>,
    tier: Box<str>,
    /// In alphabetical order, cut after a few; and how many there are.
    known: Vec<Box<str>>,
    count: usize,
}

impl UnknownTier {
    pub(super) fn new<'t>(policy: &str, tier: &str, known: impl Iterator<Item = &'t str>) -> Self {
        let mut known: Vec<&str> = known.collect();
        known.sort_unstable();
        let count = known.len();
        known.truncate(MOST_SHOWN);
        let tier: String = tier.chars().take(LONGEST).collect();
        let known = known.into_iter().map(Into::into).collect();
        Self { policy: policy.into(), tier: tier.into(), known, count }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The tier as the request names it, cut after 64 characters.
    #[must_use]
    pub fn tier(&self) -> &str {
        &self.tier
    }
}

impl fmt::Display for UnknownTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, tier, known, count } = self;
        if known.is_empty() {
            return write!(f, "policy `{policy}` has no tiers; found {tier:?}");
        }
        write!(f, "policy `{policy}` has no tier {tier:?}; it has ")?;
        for (at, name) in known.iter().enumerate() {
            let separator = match at {
                0 => "",
                _ if at + 1 == *count => " and ",
                _ => ", ",
            };
            write!(f, "{separator}`{name}`")?;
        }
        match count - known.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl std::error::Error for UnknownTier {}

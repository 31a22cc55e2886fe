//! Which descriptors a rule matches: `match`.

/// How the entries of a rule are compared with those of a descriptor. Exhaustive: what applies rules must know every way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleMatch {
    /// All entries, in order. One rule decides about a descriptor, the most specific one.
    #[default]
    Exact,
    /// A descriptor that contains the entries, in any order, whatever else it has. All such rules apply, each once to a
    /// request.
    Contains,
}

impl RuleMatch {
    /// As files spell them.
    pub(crate) const WORDS: &'static [&'static str] = &["exact", "contains"];

    /// As files spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RuleMatch::Exact => "exact",
            RuleMatch::Contains => "contains",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<RuleMatch> {
        [RuleMatch::Exact, RuleMatch::Contains].into_iter().find(|way| way.name() == word)
    }
}

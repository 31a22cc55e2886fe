//! The descriptors of one domain as a tree, with a level for each entry of a descriptor.

use std::collections::HashMap;
use std::sync::Arc;

use crate::rules::{Entry, Rule};

/// A place in the tree: what applies where a descriptor ends, and where more entries lead.
#[derive(Default)]
pub(super) struct Node {
    pub(super) rule: Option<Arc<Rule>>,
    /// By the key of the next entry.
    next: HashMap<Box<str>, Branch>,
}

/// Where the value of an entry leads.
#[derive(Default)]
struct Branch {
    exact: HashMap<Box<[u8]>, Node>,
    /// In the order of the configuration.
    patterns: Vec<(Pattern, Node)>,
    any: Option<Box<Node>>,
}

/// A value in which each `*` stands for any text: the pieces between them.
struct Pattern(Vec<Box<[u8]>>);

impl Pattern {
    fn new(text: &str) -> Pattern {
        Pattern(text.split('*').map(|piece| piece.as_bytes().into()).collect())
    }

    /// Each piece is taken where it first fits, the last one at the end: no other choice could fit more.
    fn fits(&self, value: &[u8]) -> bool {
        let [first, inner @ .., last] = &*self.0 else { return false };
        let Some(rest) = value.strip_prefix(&**first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&**last) else { return false };
        for piece in inner.iter().filter(|piece| !piece.is_empty()) {
            let at = rest.windows(piece.len()).position(|window| window == &**piece);
            let Some(at) = at else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }
}

impl Node {
    /// The node of an entry, which is new: siblings differ.
    pub(super) fn insert(&mut self, key: &str, value: &str, node: Node) {
        let branch = self.next.entry(key.into()).or_default();
        match value {
            "" => branch.any = Some(Box::new(node)),
            pattern if pattern.contains('*') => branch.patterns.push((Pattern::new(pattern), node)),
            exact => _ = branch.exact.insert(exact.as_bytes().into(), node),
        }
    }

    /// What applies to a descriptor. An entry that has led to a node leads nowhere else, even if nothing is below it.
    pub(super) fn find(&self, descriptor: &[Entry<'_>]) -> Option<&Arc<Rule>> {
        let mut node = self;
        for (key, value) in descriptor {
            let Branch { exact, patterns, any } = node.next.get(*key)?;
            let by_pattern = || patterns.iter().find(|(pattern, _)| pattern.fits(value));
            let next = exact.get(*value).or_else(|| by_pattern().map(|(_, node)| node));
            node = next.or(any.as_deref())?;
        }
        node.rule.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, value, fits) in [
            ("a*", "a", true),
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*", "", true),
            ("*c", "abc", true),
            ("*c", "abcd", false),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*a", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("*x*", "axb", true),
            ("*x*", "ab", false),
            ("a**b", "ab", true),
        ] {
            assert_eq!(Pattern::new(pattern).fits(value.as_bytes()), fits, "{pattern} {value}");
        }
    }
}

//! From trees of descriptors to rules that decide the same.
//!
//! The reference service goes down its tree and never back: once an entry has led to a node, only what
//! is below that node counts, even if there is nothing. Our rules are tried until one fits. So where a
//! node leads nowhere that a less specific one beside it would lead, an unlimited rule stands in the
//! way.

use std::collections::HashSet;

use waterclock_config::Pattern;

use super::super::names::Names;
use super::super::notes::Note;
use super::tree::{Domain, Kind, Limit, Node};
use crate::output::Failure;

/// Everything that is to be written.
#[derive(Default)]
pub(super) struct Imported {
    pub(super) rules: Vec<Imports>,
    /// What was left out, and why.
    pub(super) notes: Vec<Note>,
}

/// One rule, with the policy that it names.
pub(super) struct Imports {
    pub(super) domain: String,
    pub(super) entries: Vec<(String, Pattern)>,
    /// The entries that share a budget, if not all.
    pub(super) key: Option<Vec<String>>,
    pub(super) effect: Effect,
    pub(super) name: Option<String>,
    pub(super) replaces: Vec<String>,
    /// Where it comes from.
    pub(super) place: String,
}

pub(super) enum Effect {
    Unlimited,
    /// As above, and only to keep a less specific rule out.
    Barrier,
    Refuse,
    Policy {
        name: String,
        requests: u32,
        per: &'static str,
        shadow: bool,
    },
}

/// The rules of all domains.
pub(super) fn of(domains: &[Domain]) -> Result<Imported, Failure> {
    let mut imported = Imported::default();
    let mut names = Names::default();
    for domain in domains {
        let mut walk = Walk { domain: &domain.name, names: &mut names, imported: &mut imported };
        walk.level(&mut Vec::new(), &domain.nodes);
        let mut barriers = Barriers { domain: &domain.name, known: HashSet::new() };
        let rules = &mut imported.rules;
        let of_domain = rules.iter().filter(|rule| rule.domain == domain.name);
        barriers.known.extend(of_domain.map(|rule| rule.entries.clone()));
        barriers.level(&mut Vec::new(), &domain.nodes, rules);
    }
    if imported.rules.is_empty() {
        return Err(Failure::from(
            "there are no limits in these files: nothing to import".to_owned(),
        ));
    }
    Ok(imported)
}

/// One step of the walk down: the node and its siblings.
struct Walk<'w> {
    domain: &'w str,
    names: &'w mut Names,
    imported: &'w mut Imported,
}

impl<'n> Walk<'_> {
    fn level(&mut self, path: &mut Vec<&'n Node>, nodes: &'n [Node]) {
        for (at, node) in nodes.iter().enumerate() {
            if let Some(first) = hides(&nodes[..at], node) {
                let message = format!(
                    "left out, because {} of {} comes first and matches all that it would",
                    first.value, first.place
                );
                self.imported.notes.push(Note::new(&node.place, message));
                continue;
            }
            if node.is_measured {
                let message = "`detailed_metric` and `value_to_metric` have no counterpart; metrics are by policy";
                self.imported.notes.push(Note::new(&node.place, message));
            }
            path.push(node);
            if let Some(limit) = &node.limit {
                self.rule(path, limit);
            }
            self.level(path, &node.below);
            path.pop();
        }
    }

    fn rule(&mut self, path: &[&Node], limit: &Limit) {
        let place = path.last().map_or("", |node| &node.place);
        let effect = match limit.kind {
            Kind::Unlimited => Effect::Unlimited,
            Kind::Window { requests: 0, shadow: true, .. } => {
                let note = "refuses everything, but in shadow: it limits nothing";
                self.imported.notes.push(Note::new(place, note));
                Effect::Unlimited
            }
            Kind::Window { requests: 0, .. } => Effect::Refuse,
            Kind::Window { requests, per, shadow } => {
                let name = self.names.of_path(self.domain, &entries(path));
                Effect::Policy { name, requests, per, shadow }
            }
        };
        let is_shared = path.iter().any(|node| node.is_shared);
        let own = path.iter().filter(|node| !node.is_shared).map(|node| node.key.clone());
        self.imported.rules.push(Imports {
            domain: self.domain.to_owned(),
            entries: entries(path),
            key: is_shared.then(|| own.collect()),
            effect,
            name: limit.name.clone(),
            replaces: limit.replaces.clone(),
            place: place.to_owned(),
        });
    }
}

fn entries(path: &[&Node]) -> Vec<(String, Pattern)> {
    path.iter().map(|node| (node.key.clone(), node.value.clone())).collect()
}

/// Wildcards are tried in the order of the file there, the longest first here: one that comes after
/// another which covers it is never reached.
fn hides<'n>(before: &'n [Node], node: &Node) -> Option<&'n Node> {
    let is_wild = |node: &Node| matches!(node.value, Pattern::Prefix(_));
    let covers = |first: &&Node| {
        is_wild(first) && is_wild(node) && first.key == node.key && first.value.covers(&node.value)
    };
    before.iter().find(covers)
}

struct Barriers<'b> {
    domain: &'b str,
    known: HashSet<Vec<(String, Pattern)>>,
}

impl Barriers<'_> {
    fn level(
        &mut self,
        path: &mut Vec<(String, Pattern)>,
        nodes: &[Node],
        rules: &mut Vec<Imports>,
    ) {
        for (at, node) in nodes.iter().enumerate() {
            if hides(&nodes[..at], node).is_some() {
                continue;
            }
            path.push((node.key.clone(), node.value.clone()));
            for wider in nodes.iter().filter(|wider| is_wider(wider, node)) {
                let mut below = Vec::new();
                paths_below(wider, &mut Vec::new(), &mut below);
                for keys in below {
                    self.stand(path, &keys, node, rules);
                }
            }
            self.level(path, &node.below, rules);
            path.pop();
        }
    }

    fn stand(
        &mut self,
        path: &[(String, Pattern)],
        keys: &[String],
        node: &Node,
        rules: &mut Vec<Imports>,
    ) {
        let any = keys.iter().map(|key| (key.clone(), Pattern::Any));
        let entries: Vec<(String, Pattern)> = path.iter().cloned().chain(any).collect();
        if self.known.insert(entries.clone()) {
            rules.push(Imports {
                domain: self.domain.to_owned(),
                entries,
                key: None,
                effect: Effect::Barrier,
                name: None,
                replaces: Vec::new(),
                place: node.place.clone(),
            });
        }
    }
}

/// Whether `wider` would match what `node` matches, if `node` were not there.
fn is_wider(wider: &Node, node: &Node) -> bool {
    wider.key == node.key && wider.value != node.value && wider.value.covers(&node.value)
}

/// The keys that lead from a node to each limit at or below it.
fn paths_below(node: &Node, keys: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    if node.limit.is_some() {
        found.push(keys.clone());
    }
    for next in &node.below {
        keys.push(next.key.clone());
        paths_below(next, keys, found);
        keys.pop();
    }
}

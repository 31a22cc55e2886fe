//! The policies of a store, each with how it is served.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use waterclock::store::Persist as _;
use waterclock::{Algorithm, Migration, Mode, Policy, Serving, StoreError};

use crate::keyspace::{Keyspace, Mark};
use crate::shape::Shape;

/// Older definitions of a policy whose records are still looked for.
pub(crate) const REMEMBERED: usize = 4;

/// A policy with everything that follows from it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) policy: Policy,
    pub(crate) shape: Shape,
    pub(crate) mark: Mark,
    pub(crate) serving: Serving,
    /// Definitions this one replaced, the latest first.
    pub(crate) older: Vec<Older>,
    /// The policies it shares its keys with.
    pub(crate) family: Option<Family>,
}

/// Policies that share their keys. By units each has records of its own, and a key has a record of one
/// of them. By time all have the same records.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    /// The name of the policy that the others are variants of.
    pub(crate) base: Box<str>,
    pub(crate) migration: Migration,
    /// The others, as they are without a family; by time none need be known.
    pub(crate) siblings: Vec<Arc<Entry>>,
}

/// A definition that was replaced.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    pub(crate) entry: Arc<Entry>,
    /// By then every record written under it is as good as fresh.
    until: Instant,
}

/// So much later, as far as instants go.
fn later(time: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(365 * 86_400);
    Instant::now() + time.min(FAR)
}

impl Entry {
    /// The definition, to be read back by a process that has another one.
    pub(crate) fn definition(&self) -> String {
        format!("{}\n{}\n", self.mark.letters(), self.shape.definition())
    }

    /// Adds the definitions that were used earlier, as they are kept; `second` is the server's now.
    pub(crate) fn remember(&mut self, second: u64, definitions: &str) {
        for paragraph in definitions.split_terminator("\n\n") {
            if let Some(older) = self.read_older(second, paragraph) {
                self.add_older(older);
            }
        }
    }

    fn read_older(&self, second: u64, paragraph: &str) -> Option<Older> {
        let (head, definition) = paragraph.split_once('\n')?;
        let (mark, replaced) = head.split_once(' ')?;
        let ago = Duration::from_secs(second.saturating_sub(replaced.parse().ok()?));
        let policy = Policy::from_definition(self.policy.name(), definition)?;
        let mut entry = Self::new(policy, Serving::default(), None).ok()?;
        entry.mark = Mark::read(mark)?;
        let left = entry.shape.remembers_for().checked_sub(ago)?;
        Some(Older { entry: Arc::new(entry), until: later(left) })
    }

    fn add_older(&mut self, older: Older) {
        let mark = older.entry.mark;
        let known = self.mark == mark || self.older.iter().any(|other| other.entry.mark == mark);
        if !known && self.older.len() < REMEMBERED && Instant::now() < older.until {
            self.older.push(older);
        }
    }

    /// The definitions under which a record of the same key may lie, in the order in which they are asked
    /// for.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let own = self.older.iter().map(|older| &older.entry);
        let siblings = self.family.iter().flat_map(|family| &family.siblings);
        own.chain(siblings.flat_map(|sibling| {
            std::iter::once(sibling).chain(sibling.older.iter().map(|older| &older.entry))
        }))
    }

    /// Whether a record may lie elsewhere at any time.
    pub(crate) fn has_siblings(&self) -> bool {
        self.family.as_ref().is_some_and(|family| !family.siblings.is_empty())
    }

    /// Whether this and another are of one family.
    pub(crate) fn is_kin_of(&self, other: &Self) -> bool {
        let base = |entry: &Self| entry.family.as_ref().map(|family| family.base.clone());
        base(self).is_some_and(|name| base(other) == Some(name))
    }

    /// As one of a family; by time, with the records that all of it have. `before` may have written others.
    pub(crate) fn in_family(
        mut self,
        base: &str,
        migration: Migration,
        before: Option<&Arc<Self>>,
    ) -> Self {
        if migration == Migration::Time {
            self.shape = self.shape.shared();
            self.mark = Keyspace::mark(base, b"shared by time");
            self.older.clear();
            before.into_iter().for_each(|before| self.add_all_older(before));
        }
        self.family = Some(Family { base: base.into(), migration, siblings: Vec::new() });
        self
    }

    /// Whether records written under an older definition may still lie there.
    pub(crate) fn has_older_records(&self) -> bool {
        !self.older.is_empty() && {
            let now = Instant::now();
            self.older.iter().any(|older| now < older.until)
        }
    }

    pub(crate) fn new(
        policy: Policy,
        serving: Serving,
        before: Option<&Arc<Entry>>,
    ) -> Result<Self, StoreError> {
        let shape = Shape::of(&policy)?;
        if serving.lease.is_some() {
            leasable(&policy)?;
        }
        let mark = Keyspace::mark(policy.name(), shape.fingerprint().as_bytes());
        let mut entry = Self { policy, shape, mark, serving, older: Vec::new(), family: None };
        before.into_iter().for_each(|before| entry.add_all_older(before));
        Ok(entry)
    }

    /// Adds a definition that is replaced now, and those it replaced.
    pub(crate) fn add_all_older(&mut self, before: &Arc<Self>) {
        let now = Instant::now();
        self.older.retain(|older| now < older.until);
        let until = later(before.shape.remembers_for());
        let newest = Older { entry: Arc::clone(before), until };
        let known = self.older.iter().any(|older| older.entry.mark == before.mark);
        if !known && self.mark != before.mark && now < until {
            // The newest is the one that records were written under: it takes the oldest one's place.
            self.older.truncate(REMEMBERED - 1);
            self.older.insert(0, newest);
        }
        before.older.iter().for_each(|older| self.add_older(older.clone()));
    }
}

fn leasable(policy: &Policy) -> Result<(), StoreError> {
    let unfit = |what: &str| {
        let name = policy.name();
        Err(StoreError::Unfit(format!("policy `{name}` cannot be leased: {what}")))
    };
    if policy.mode() != Mode::Binary || policy.is_shadow() {
        return unfit("only binary policies that are not in shadow can be");
    }
    for limit in policy.limits() {
        let event = matches!(
            limit.algorithm(),
            Algorithm::EvenSlots(_)
                | Algorithm::MinInterval(_)
                | Algorithm::Concurrency(_)
                | Algorithm::ErrorRate(_)
        );
        if event || limit.min_interval().is_some() || limit.is_shadow() {
            return unfit("units taken out beforehand keep no distance and cast no shadow");
        }
    }
    Ok(())
}

//! The policies of a store: their records' definitions, older ones, and families that share keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;
use waterclock::store::{MAX_SHARING, Migrate as _, Persist as _};
use waterclock::{Migration, Mode, Policy, Serving, StoreError};

use crate::call::bad_reply;
use crate::direct::Direct;
use crate::keyspace::{Keyspace, Mark};
use crate::link::Request;
use crate::script::REMEMBER;
use crate::shape::Shape;

/// How many older definitions of a policy are searched for records.
const REMEMBERED: usize = 4;
/// Definitions are kept this long after a process last used them.
const A_YEAR_MS: &str = "31536000000";

/// The policies, by name.
pub(crate) type Entries = HashMap<Box<str>, Arc<Entry>>;

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

/// Adds a duration to an instant, saturating.
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

impl Direct {
    /// Adds or replaces a policy.
    pub(crate) async fn set_entry(
        &self,
        policy: Policy,
        serving: Serving,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let before = self.known(policy.name());
        let family = before.as_ref().and_then(|before| before.family.clone());
        let by_time = family.as_ref().is_some_and(|family| family.migration == Migration::Time);
        let mut entry = Entry::new(policy, serving, before.as_ref().filter(|_| !by_time))?;
        if !by_time {
            self.add_known_definitions(&mut entry).await;
        }
        if let Some(Family { base, migration, .. }) = &family {
            entry.policy.check_migration(*migration)?;
            entry = entry.in_family(base, *migration, before.as_ref());
        }
        let is_other = |twin: &Arc<Entry>| !by_time || !twin.is_kin_of(&entry);
        if let Some(twin) = self.same_marked(&entry).filter(is_other) {
            return Err(same_mark(&entry, &twin));
        }
        let mut entries = self.entries.write();
        entries.insert(entry.policy.name().into(), Arc::new(entry));
        if family.is_some() {
            link_siblings(&mut entries);
        }
        Ok(())
    }

    /// Adds the definitions that other processes used. While Redis is unreachable, usage under other numbers by another
    /// process is not known.
    async fn add_known_definitions(&self, entry: &mut Entry) {
        if let Ok((second, definitions)) = self.remember(entry).await {
            entry.remember(second, &definitions);
        }
    }

    /// Stores a policy's definition: the server's second, and all definitions that are stored by then.
    async fn remember(&self, entry: &Entry) -> Result<(u64, String), StoreError> {
        let key = self.keyspace.definitions(entry.policy.name());
        let most = (REMEMBERED + 1).to_string();
        let args = [&*entry.definition(), entry.mark.letters(), A_YEAR_MS, &most];
        let args = args.map(|arg| arg.as_bytes().to_vec()).into();
        let request = Request::Script { script: &REMEMBER, keys: vec![key.clone()], args };
        match &*self.route.send(key.slot, request, Instant::now() + self.deadline).await? {
            [Value::Int(second), Value::BulkString(all)] => {
                let second = u64::try_from(*second).map_err(|_| bad_reply())?;
                Ok((second, String::from_utf8(all.clone()).map_err(|_| bad_reply())?))
            }
            _ => Err(bad_reply()),
        }
    }

    /// Another policy whose records could not be distinguished from this one's.
    fn same_marked(&self, entry: &Entry) -> Option<Arc<Entry>> {
        let entries = self.entries.read();
        let mut others =
            entries.values().filter(|other| other.policy.name() != entry.policy.name());
        others.find(|other| other.mark == entry.mark).cloned()
    }

    /// Adds or replaces a policy that shares its keys with another.
    pub(crate) async fn set_variant_entry(
        &self,
        of: &str,
        policy: Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let of_entry = self.entry(of)?;
        let (base, alone) = match &of_entry.family {
            Some(family) => (self.entry(&family.base)?, false),
            None => (of_entry, true),
        };
        self.check_variant(&base, &policy, migration)?;
        let base_name = base.policy.name().to_owned();
        let before = self.known(policy.name()).filter(|_| migration == Migration::Units);
        let mut entry = Entry::new(policy, base.serving, before.as_ref())?;
        if migration == Migration::Units {
            self.add_known_definitions(&mut entry).await;
        }
        let entry = entry.in_family(&base_name, migration, Some(&base));
        let twin_in_family = |twin: &Entry| twin.is_kin_of(&entry) && migration == Migration::Time;
        if let Some(twin) = self.same_marked(&entry).filter(|twin| !twin_in_family(twin)) {
            return Err(same_mark(&entry, &twin));
        }
        let mut entries = self.entries.write();
        if alone {
            let base = Entry::clone(&base).in_family(&base_name, migration, Some(&base));
            entries.insert(base_name.into(), Arc::new(base));
        }
        entries.insert(entry.policy.name().into(), Arc::new(entry));
        link_siblings(&mut entries);
        Ok(())
    }

    fn check_variant(
        &self,
        base: &Entry,
        policy: &Policy,
        migration: Migration,
    ) -> Result<(), StoreError> {
        let (of, name) = (base.policy.name(), policy.name());
        let unfit = |reason: String| Err(StoreError::unfit(reason));
        let known = self.known(name);
        if known.as_ref().is_some_and(|known| name == of || !known.is_kin_of(base)) {
            return unfit(format!(
                "policy `{name}` exists and is not a variant of `{of}`; give the variant another name"
            ));
        }
        if let Some(family) = &base.family {
            if family.migration != migration {
                return unfit(format!(
                    "policy `{name}` migrates by {migration:?}, but the other variants of `{of}` by {:?}; all variants \
                     of a policy must migrate the same way",
                    family.migration
                ));
            }
            if family.siblings.len() + 1 >= MAX_SHARING && known.is_none() {
                return unfit(format!(
                    "policy `{name}`: on Redis at most {MAX_SHARING} policies can share their keys by units; \
                     remove one, or share by time"
                ));
            }
        }
        for policy in [&base.policy, policy] {
            policy.check_migration(migration)?;
        }
        Ok(())
    }

    /// Removes a policy from this process. Its records stay until they expire, because other processes may still use them.
    pub(crate) async fn remove_entry(&self, name: &str) -> Result<(), StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let removed = self.entry(name)?;
        let mut entries = self.entries.write();
        entries.remove(name);
        let Some(Family { base, migration, .. }) = &removed.family else { return Ok(()) };
        if **base == *name {
            entries.retain(|_, entry| !entry.is_kin_of(&removed));
        } else if *migration == Migration::Units {
            // What was spent under it is looked for by the others as if it were one of theirs.
            let bare = Arc::new(Entry { family: None, ..Entry::clone(&removed) });
            for entry in entries.values_mut().filter(|entry| entry.is_kin_of(&removed)) {
                let mut other = Entry::clone(entry);
                other.add_all_older(&bare);
                *entry = Arc::new(other);
            }
            link_siblings(&mut entries);
        }
        Ok(())
    }

    fn known(&self, name: &str) -> Option<Arc<Entry>> {
        self.entries.read().get(name).cloned()
    }
}

fn leasable(policy: &Policy) -> Result<(), StoreError> {
    let unfit = |what: &str| {
        let name = policy.name();
        Err(StoreError::unfit(format!("policy `{name}` cannot be leased: {what}")))
    };
    if policy.mode() != Mode::Binary || policy.is_shadow() {
        return unfit("leases need `mode = \"binary\"` and a policy that is not in shadow");
    }
    for limit in policy.limits() {
        let counts_units = limit.max_cost().is_some() && limit.lease().is_none();
        if !counts_units || limit.min_interval().is_some() || limit.is_shadow() {
            return unfit(
                "leases cannot enforce `min_interval`, even slots, concurrency, error rates or shadow limits; remove those, or `lease`",
            );
        }
    }
    Ok(())
}

fn same_mark(entry: &Entry, twin: &Entry) -> StoreError {
    let (name, twin) = (entry.policy.name(), twin.policy.name());
    let reason = format!(
        "its records cannot be distinguished from those of policy `{twin}`; rename one of them"
    );
    StoreError::unfit(format!("policy `{name}`: {reason}"))
}

/// Gives each member of a family that migrates by units a list of the others.
fn link_siblings(entries: &mut Entries) {
    let mut families: HashMap<Box<str>, Vec<Arc<Entry>>> = HashMap::new();
    for entry in entries.values() {
        if let Some(Family { base, migration: Migration::Units, .. }) = &entry.family {
            let bare = Entry { family: None, ..Entry::clone(entry) };
            families.entry(base.clone()).or_default().push(Arc::new(bare));
        }
    }
    for entry in entries.values_mut() {
        let Some(family) = &entry.family else { continue };
        let Some(members) = families.get(&family.base) else { continue };
        let others = members.iter().filter(|other| other.policy.name() != entry.policy.name());
        let siblings = others.cloned().collect();
        let family = Some(Family { siblings, ..family.clone() });
        *entry = Arc::new(Entry { family, ..Entry::clone(entry) });
    }
}

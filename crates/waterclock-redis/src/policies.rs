//! The policies of a store, and the definitions by which records were written.
//!
//! A record names its definition by a tag, which the policy's registry in Redis gives out. A record that was written by
//! another definition than the caller's is translated by the caller, when it is found.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep};
use waterclock::store::{MAX_SHARING, Migrate as _, Persist as _};
use waterclock::{Factor, Migration, Mode, Policy, Serving, StoreError, Timestamp};

use crate::call::bad_reply;
use crate::direct::Direct;
use crate::keyspace::{Keyspace, Mark, Tag};
use crate::link::Request;
use crate::script::{DEFINITION, REGISTER};
use crate::shape::Shape;

/// A definition in use is registered again after this time.
const REGISTER_AGAIN: Duration = Duration::from_secs(600);
/// How long a definition is kept beyond the life of its records: longer than until it is registered again.
const SLACK: Duration = Duration::from_secs(3_600);
/// How long it is kept at least: debts outlive what a full bucket takes.
const SHORTEST: Duration = Duration::from_secs(2 * 86_400);
/// The most that a definition is kept after its last use.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// The policies, by name.
pub(crate) type Entries = HashMap<Box<str>, Arc<Entry>>;
/// Definitions by which records may have been written.
pub(crate) type Definitions = HashMap<(Mark, Tag), Definition>;

/// A definition of a policy that is, or was, in use.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) entry: Arc<Entry>,
    /// The second of the server's clock until which it is registered.
    kept_until: u64,
    /// Whether this process has used it.
    is_own: bool,
}

impl Definition {
    /// Whether other processes may use it: they register it again and again. One that this process used and has
    /// replaced is replaced.
    pub(crate) fn is_used_elsewhere(&self, now: Timestamp) -> bool {
        let used_at = self.kept_until.saturating_sub(self.entry.kept_for().as_secs());
        let second = now.as_nanos() / 1_000_000_000;
        !self.is_own && second < used_at + 2 * REGISTER_AGAIN.as_secs()
    }
}

/// A policy with everything that follows from it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) policy: Policy,
    pub(crate) shape: Shape,
    pub(crate) mark: Mark,
    pub(crate) serving: Serving,
    /// The policies it shares its keys with.
    pub(crate) family: Option<Family>,
    /// When the registry last confirmed its tag.
    registered: Option<Instant>,
}

/// Policies that share their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// The name of the policy that the others are variants of.
    pub(crate) base: Box<str>,
    pub(crate) migration: Migration,
}

impl Entry {
    /// Fails if the scripts cannot decide the policy exactly.
    pub(crate) fn new(
        policy: Policy,
        serving: Serving,
        family: Option<Family>,
    ) -> Result<Self, StoreError> {
        let mut shape = Shape::of(&policy)?;
        if serving.lease.is_some() {
            leasable(&policy)?;
        }
        if family.as_ref().is_some_and(|family| family.migration == Migration::Time) {
            shape.share();
        }
        let base = family.as_ref().map_or(policy.name(), |family| &family.base);
        let mark = Keyspace::mark(base);
        Ok(Self { policy, shape, mark, serving, family, registered: None })
    }

    pub(crate) fn tag(&self) -> Tag {
        self.shape.tag()
    }

    /// How long its definition is kept after its last use.
    fn kept_for(&self) -> Duration {
        (self.shape.remembers_for() + SLACK).clamp(SHORTEST, LONGEST)
    }

    /// Itself, with records that policies of any numbers can read; none if it is not one gcra limit.
    pub(crate) fn shared(&self) -> Option<Self> {
        self.policy.check_migration(Migration::Time).ok()?;
        let mut shared = self.clone();
        shared.shape.share();
        Some(shared)
    }

    /// The same policy with other limits, which are not registered: what they have written says so itself.
    pub(crate) fn derived(&self, policy: Policy) -> Result<Self, StoreError> {
        let family = Family { base: self.base().into(), migration: Migration::Units };
        Self::new(policy, Serving::default(), Some(family))
    }

    /// The same with limits by a factor.
    pub(crate) fn scaled(&self, factor: Factor) -> Result<Self, StoreError> {
        self.derived(self.policy.scaled(self.policy.name(), factor)?)
    }

    /// The name of the policy under which it is registered.
    pub(crate) fn base(&self) -> &str {
        self.family.as_ref().map_or(self.policy.name(), |family| &family.base)
    }

    pub(crate) fn is_by_time(&self) -> bool {
        self.family.as_ref().is_some_and(|family| family.migration == Migration::Time)
    }

    /// Whether this and another are of one family.
    pub(crate) fn is_kin_of(&self, other: &Self) -> bool {
        self.family.is_some() && self.base() == other.base() && other.family.is_some()
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
        let family = self.known(policy.name()).and_then(|before| before.family.clone());
        if let Some(family) = &family {
            policy.check_migration(family.migration)?;
        }
        let entry = Entry::new(policy, serving, family)?;
        self.add_entry(entry).await
    }

    async fn add_entry(&self, mut entry: Entry) -> Result<(), StoreError> {
        if let Some(twin) = self.same_marked(&entry) {
            return Err(same_mark(entry.policy.name(), twin.policy.name()));
        }
        // While Redis is unreachable it keeps the tag that it would prefer.
        _ = self.register(&mut entry).await;
        self.keep_entry(entry);
        self.start_registering();
        self.start_announcing();
        Ok(())
    }

    fn keep_entry(&self, entry: Entry) {
        let entry = Arc::new(entry);
        let own = Definition { entry: Arc::clone(&entry), kept_until: u64::MAX, is_own: true };
        self.definitions.lock().insert((entry.mark, entry.tag()), own);
        self.entries.write().insert(entry.policy.name().into(), entry);
        self.leases.note_change();
    }

    /// Gets the tag of a definition.
    async fn register(&self, entry: &mut Entry) -> Result<(), StoreError> {
        if entry.is_by_time() {
            return Ok(());
        }
        let key = self.keyspace.definitions(entry.base());
        let args = [
            entry.shape.definition().as_bytes().to_vec(),
            entry.tag().digits().to_vec(),
            entry.kept_for().as_secs().to_string().into_bytes(),
            LONGEST.as_millis().to_string().into_bytes(),
        ];
        let request =
            Request::Script { script: &REGISTER, keys: vec![key.clone()], args: args.into() };
        match &*self.route.send(key.slot, request, Instant::now() + self.deadline).await? {
            [Value::BulkString(tag)] => {
                entry.shape.set_tag(Tag::read(tag).ok_or_else(bad_reply)?);
                entry.registered = Some(Instant::now());
                Ok(())
            }
            _ => Err(bad_reply()),
        }
    }

    /// The definition by which a record of a policy was written; none if it is not registered any more. `now` is by
    /// the server's clock.
    pub(crate) async fn definition(
        &self,
        entry: &Entry,
        tag: Tag,
        now: Timestamp,
        by: Instant,
    ) -> Result<Option<Definition>, StoreError> {
        let second = now.as_nanos() / 1_000_000_000;
        let known = self.definitions.lock().get(&(entry.mark, tag)).cloned();
        // Afterwards its tag may be another's.
        if let Some(known) = known.filter(|known| known.is_own || second < known.kept_until) {
            return Ok(Some(known));
        }
        let key = self.keyspace.definitions(entry.base());
        let args = vec![tag.digits().to_vec()];
        let request = Request::Script { script: &DEFINITION, keys: vec![key.clone()], args };
        let [Value::BulkString(registered)] = &*self.route.send(key.slot, request, by).await?
        else {
            return Ok(None);
        };
        let read = read_definition(entry, tag, registered);
        if let Some(read) = &read {
            self.definitions.lock().insert((entry.mark, tag), read.clone());
        }
        Ok(read)
    }

    /// Whether a definition is that of a policy which this process serves.
    pub(crate) fn is_served(&self, definition: &Entry) -> bool {
        let served = self.known(definition.policy.name());
        let same =
            |served: Arc<Entry>| (served.mark, served.tag()) == (definition.mark, definition.tag());
        served.is_some_and(same)
    }

    /// Another policy whose records could not be distinguished from this one's.
    fn same_marked(&self, entry: &Entry) -> Option<Arc<Entry>> {
        let entries = self.entries.read();
        let is_twin =
            |other: &&Arc<Entry>| other.mark == entry.mark && other.base() != entry.base();
        entries.values().find(is_twin).cloned()
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
        let base = match &of_entry.family {
            Some(family) => self.entry(&family.base)?,
            None => of_entry,
        };
        self.check_variant(&base, &policy, migration)?;
        let family = Some(Family { base: base.policy.name().into(), migration });
        let variant = Entry::new(policy, base.serving, family.clone())?;
        if base.family.is_none() {
            let mut base = Entry { family, ..Entry::clone(&base) };
            if migration == Migration::Time {
                base.shape.share();
            }
            self.keep_entry(base);
        }
        self.add_entry(variant).await
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
            if migration == Migration::Units && known.is_none() && self.kin(base) >= MAX_SHARING {
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

    fn kin(&self, base: &Entry) -> usize {
        self.entries.read().values().filter(|entry| entry.is_kin_of(base)).count()
    }

    /// Removes a policy from this process. Its records stay until they expire, because other processes may still use them.
    pub(crate) async fn remove_entry(&self, name: &str) -> Result<(), StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let removed = self.entry(name)?;
        let mut entries = self.entries.write();
        entries.remove(name);
        if removed.family.is_some() && removed.base() == name {
            entries.retain(|_, entry| !entry.is_kin_of(&removed));
        }
        drop(entries);
        self.leases.note_change();
        Ok(())
    }

    /// Registers the definitions in use now and then, for as long as the store lives: so that their texts are there
    /// for others even if Redis was unreachable, or lost its state.
    fn start_registering(&self) {
        if self.is_registering.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let weak = self.downgrade();
        tokio::spawn(async move {
            loop {
                sleep(REGISTER_AGAIN / 20).await;
                let Some(direct) = Direct::upgrade(&weak) else { return };
                direct.register_again().await;
            }
        });
    }

    async fn register_again(&self) {
        let is_due = |entry: &&Arc<Entry>| {
            !entry.is_by_time()
                && entry.registered.is_none_or(|then| then.elapsed() >= REGISTER_AGAIN)
        };
        let mut due: Vec<Arc<Entry>> =
            self.entries.read().values().filter(is_due).cloned().collect();
        // The order of the map is another in every process; a history must replay.
        due.sort_by(|a, b| a.policy.name().cmp(b.policy.name()));
        for before in due {
            let mut entry = Entry::clone(&before);
            if self.register(&mut entry).await.is_err() {
                continue;
            }
            let _one_at_a_time = self.changing.lock().await;
            if self.known(before.policy.name()).is_some_and(|now| Arc::ptr_eq(&now, &before)) {
                self.keep_entry(entry);
            }
        }
    }

    fn known(&self, name: &str) -> Option<Arc<Entry>> {
        self.entries.read().get(name).cloned()
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn registered_definition(entry: &Entry, tag: Tag, text: &[u8]) -> Option<Arc<Entry>> {
    read_definition(entry, tag, text).map(|definition| definition.entry)
}

/// A definition as `register.lua` keeps it.
fn read_definition(entry: &Entry, tag: Tag, registered: &[u8]) -> Option<Definition> {
    let (kept_until, text) = std::str::from_utf8(registered).ok()?.split_once('\n')?;
    // What only tells calendars apart is no limit.
    let lines = text.split_inclusive('\n').filter(|line| !line.starts_with('#'));
    let policy = Policy::from_definition(entry.base(), &lines.collect::<String>())?;
    let mut other = Entry::new(policy, Serving::default(), None).ok()?;
    other.shape.set_tag(tag);
    let (entry, kept_until) = (Arc::new(other), kept_until.parse().ok()?);
    Some(Definition { entry, kept_until, is_own: false })
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

pub(crate) fn same_mark(name: &str, twin: &str) -> StoreError {
    let reason = format!(
        "its records cannot be distinguished from those of policy `{twin}`; rename one of them"
    );
    StoreError::unfit(format!("policy `{name}`: {reason}"))
}

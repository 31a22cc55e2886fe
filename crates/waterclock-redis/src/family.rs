//! Policies that share their keys.

use std::collections::HashMap;
use std::sync::Arc;

use waterclock::store::Migrate as _;
use waterclock::{Migration, Policy, StoreError};

use crate::entry::{Entry, Family};
use crate::store::{Entries, Inner};

/// Policies that can share their keys by units: their records are looked for in one call.
pub const MOST_BY_UNITS: usize = 8;

impl Inner {
    pub(crate) async fn set_variant(
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
        self.admit(&base, &policy, migration)?;
        let base_name = base.policy.name().to_owned();
        self.local.set_variant(&base_name, &policy, migration).await?;
        let before = self.known(policy.name()).filter(|_| migration == Migration::Units);
        let mut entry = Entry::new(policy, base.serving, before.as_ref())?;
        if migration == Migration::Units {
            self.learn(&mut entry).await;
        }
        let entry = entry.in_family(&base_name, migration, Some(&base));
        let twin_in_family = |twin: &Entry| twin.is_kin_of(&entry) && migration == Migration::Time;
        if let Some(twin) = self.twin_of(&entry).filter(|twin| !twin_in_family(twin)) {
            return Err(twins(&entry, &twin));
        }
        let mut entries = self.entries.write();
        if alone {
            let base = Entry::clone(&base).in_family(&base_name, migration, Some(&base));
            entries.insert(base_name.into(), Arc::new(base));
        }
        entries.insert(entry.policy.name().into(), Arc::new(entry));
        introduce(&mut entries);
        Ok(())
    }

    fn admit(&self, base: &Entry, policy: &Policy, migration: Migration) -> Result<(), StoreError> {
        let (of, name) = (base.policy.name(), policy.name());
        let unfit = |reason: String| Err(StoreError::Unfit(reason));
        let known = self.known(name);
        if known.as_ref().is_some_and(|known| name == of || !known.is_kin_of(base)) {
            return unfit(format!(
                "there is a policy `{name}` that is no variant of `{of}`; give the variant another name"
            ));
        }
        if let Some(family) = &base.family {
            if family.migration != migration {
                return unfit(format!(
                    "policy `{name}` migrates by {migration:?}, but the other variants of `{of}` by {:?}; all variants \
                     of a policy migrate the same way",
                    family.migration
                ));
            }
            if family.siblings.len() + 1 >= MOST_BY_UNITS && known.is_none() {
                return unfit(format!(
                    "policy `{name}` would be one too many: in Redis {MOST_BY_UNITS} policies can share \
                     their keys by units; remove one, or share by time"
                ));
            }
        }
        for policy in [&base.policy, policy] {
            policy.check_migration(migration)?;
        }
        Ok(())
    }

    /// Removes a policy here. Its records stay until they expire: other processes may have it still.
    pub(crate) async fn remove_policy(&self, name: &str) -> Result<(), StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let removed = self.entry(name)?;
        self.local.remove_policy(name).await?;
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
            introduce(&mut entries);
        }
        Ok(())
    }

    fn known(&self, name: &str) -> Option<Arc<Entry>> {
        self.entries.read().get(name).cloned()
    }
}

/// Another policy's records would be taken for this one's.
pub(crate) fn twins(entry: &Entry, twin: &Entry) -> StoreError {
    let (name, twin) = (entry.policy.name(), twin.policy.name());
    let reason = format!("it shares its mark with policy `{twin}`; rename one of them");
    StoreError::Unfit(format!("policy `{name}`: {reason}"))
}

/// Tells the members of each family that migrates by units who the others are.
pub(crate) fn introduce(entries: &mut Entries) {
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

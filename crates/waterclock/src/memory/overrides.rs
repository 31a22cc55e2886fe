//! Overrides of single keys: kept beside the state that they concern, under the same lock.

use waterclock_core::Timestamp;

use super::{Member, Shared, unknown};
use crate::clock::Clock;
use crate::store::{Failure, KeyOverride, Override, OverridePage, StoreError, tier_variant};
use crate::sync::Arc;
use crate::table::{Kept, Key, Variant};

/// The longest key of which an override is kept; faces take none that is longer.
const MAX_KEY: usize = 64 * 1024;

impl<C: Clock> Shared<C> {
    fn base(&self, policy: &str) -> Result<Member, StoreError> {
        let member = self.members().get(policy).cloned().ok_or_else(|| unknown(policy))?;
        if member.is_base() { Ok(member) } else { Err(unknown(policy)) }
    }

    pub(super) fn set_override(&self, policy: &str, new: &KeyOverride) -> Result<(), StoreError> {
        let member = self.base(policy)?;
        let kept = self.kept(policy, &member, new)?;
        let fingerprint = self.fingerprint(&new.key);
        let replaces = member.table.kept(fingerprint, Timestamp::ZERO).is_some();
        // Counted before: two callers at once must not keep one too many.
        let is_taken = replaces || self.places.take_override() || {
            // Some may have expired.
            self.tables().for_each(|table| table.sweep(self.clock.now()));
            self.places.take_override()
        };
        if !is_taken {
            let max = self.places.max_overrides();
            let reason = format!(
                "there are {max} overrides, and no room for more; clear some, or raise `max_overrides`"
            );
            return Err(StoreError::failed(Failure::Overloaded, reason));
        }
        // Another caller may have set or cleared it meanwhile.
        match (replaces, member.table.set_kept(fingerprint, kept)) {
            (false, Some(_)) => self.places.drop_override(),
            (true, None) => self.places.take_override_anyway(),
            _ => {}
        }
        Ok(())
    }

    /// An override as a shard keeps it. Fails if the policy cannot be decided by it.
    pub(super) fn kept(
        &self,
        policy: &str,
        member: &Member,
        new: &KeyOverride,
    ) -> Result<Kept, StoreError> {
        if new.key.len() > MAX_KEY {
            return Err(StoreError::unfit("the key of the override is longer than 64 KiB"));
        }
        let base = member.policy();
        match &new.rule {
            Override::Factor(factor) => {
                let key = Key::new(self.fingerprint(&new.key), Variant::BASE);
                member.table.check_scale(key, *factor)?;
            }
            Override::Tier(tier) => {
                if !self.members().contains_key(&*tier_variant(policy, tier)) {
                    return Err(StoreError::unfit(format!(
                        "policy `{policy}` has no tier `{tier}`; name one of its tiers"
                    )));
                }
            }
            Override::Block | Override::Exempt | Override::Limits(_) => {}
        }
        let own = new.rule.policy(&base)?.map(Arc::new);
        let now = self.clock.now();
        let expires_at = new.expires_in.map_or(Timestamp::MAX, |expires_in| now.after(expires_in));
        Ok(Kept { key: new.key.as_slice().into(), rule: new.rule.clone(), own, expires_at })
    }

    pub(super) fn clear_override(&self, policy: &str, key: &[u8]) -> Result<bool, StoreError> {
        let cleared = self.base(policy)?.table.clear_kept(self.fingerprint(key));
        if cleared.is_some() {
            self.places.drop_override();
        }
        let now = self.clock.now();
        Ok(cleared.is_some_and(|kept| now < kept.expires_at))
    }

    pub(super) fn has_override(&self, policy: &str, key: &[u8]) -> bool {
        let members = self.members();
        let found = members
            .get(policy)
            .and_then(|member| member.table.kept(self.fingerprint(key), self.clock.now()));
        found.is_some()
    }

    pub(super) fn override_of(
        &self,
        policy: &str,
        key: &[u8],
    ) -> Result<Option<KeyOverride>, StoreError> {
        let now = self.clock.now();
        let kept = self.base(policy)?.table.kept(self.fingerprint(key), now);
        Ok(kept.map(|kept| shown(&kept, now)))
    }

    /// In the order of fingerprints, the last of which is where the next page starts.
    pub(super) fn overrides(
        &self,
        policy: &str,
        after: Option<&str>,
        count: usize,
    ) -> Result<OverridePage, StoreError> {
        let table = self.base(policy)?.table;
        let bad = || StoreError::unfit("`after` is not where a page of overrides ends");
        let after =
            after.map_or(Ok(0), |after| u64::from_str_radix(after, 16).map_err(|_| bad()))?;
        let now = self.clock.now();
        let mut found = table.kept_after(after, count.saturating_add(1), now);
        let is_last = found.len() <= count;
        found.truncate(count);
        let next = found.last().filter(|_| !is_last).map(|(last, _)| format!("{last:016x}"));
        let overrides = found.iter().map(|(_, kept)| shown(kept, now)).collect();
        Ok(OverridePage::new(overrides, next))
    }
}

fn shown(kept: &Kept, now: Timestamp) -> KeyOverride {
    let expires = (kept.expires_at < Timestamp::MAX).then(|| kept.expires_at.since(now));
    KeyOverride::new(&*kept.key, kept.rule.clone()).expires_in(expires)
}

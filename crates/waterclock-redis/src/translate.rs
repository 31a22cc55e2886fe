//! Records that were written by another definition of a policy, or by another policy that shares its keys.

use std::sync::Arc;

use redis::Value;
use tokio::time::Instant;
use waterclock::{StoreError, Timestamp, Verb};

use crate::call::{Action, Call, KeyCharge, Known, bad_reply, foreign, instant};
use crate::direct::Direct;
use crate::due;
use crate::keyspace::Tag;
use crate::overrides::has_begun;
use crate::policies::Entry;
use crate::prefix::Parts;
use crate::shape::Translation;
use crate::state::KeyState;

impl Direct {
    /// Translates a record that was written by another definition. What is more than the new limits hold is kept if it
    /// will be read by the other definition again and the call charges it whatever there is room for.
    pub(crate) async fn translate(
        &self,
        key: &KeyCharge,
        (found, parts, list): (&[u8], Parts<'_>, Vec<u8>),
        charges_always: bool,
        now: Timestamp,
        by: Instant,
    ) -> Result<Translation, StoreError> {
        let to = &*key.entry;
        // The override has expired: what it was is written over.
        let is_over = parts.kept.is_some() && key.kept.is_none();
        if parts.state.is_empty() {
            let (record, due) = (Vec::new(), [list, Vec::new()]);
            return Ok(Translation { found: found.to_vec(), record, due, moves: is_over });
        }
        let tag = Tag::of_record(parts.state).ok_or_else(foreign)?;
        let (from, is_used) = if let Some(written_by) = parts.written_by() {
            (self.writer(to, &written_by, now, by).await?, !is_over)
        } else if tag == Tag::ANY {
            (to.shared().map(Arc::new), false)
        } else {
            let known = self.definition(to, tag, now, by).await?;
            let is_used = known
                .as_ref()
                .is_some_and(|known| self.is_served(&known.entry) || known.is_used_elsewhere(now));
            (known.map(|known| known.entry), is_used)
        };
        let Some(from) = from else {
            // Nothing is known of that definition any more: the key starts fresh.
            let (record, due) = (Vec::new(), [list, Vec::new()]);
            return Ok(Translation { found: found.to_vec(), record, due, moves: true });
        };
        let state = KeyState::of_record(&from.policy, &from.shape, parts.state, now);
        let migration = to.family.as_ref().map(|family| family.migration).unwrap_or_default();
        let keeps_excess = is_used && charges_always;
        let state = state.map_err(|_| foreign())?;
        let carried = state.carried(&from.policy, &to.policy, migration, keeps_excess);
        let record = carried.record(&to.policy, &to.shape).unwrap_or_default();
        let translated = match due::is_noted(parts.state) {
            true => due::translated(&list, &from, to).ok_or_else(foreign)?,
            false => Vec::new(),
        };
        let (found, due) = (found.to_vec(), [list, translated]);
        Ok(Translation { found, record, due, moves: !is_used })
    }

    /// Refunds units under the policies that the keys were last charged under: a smaller limit would drop usage that a
    /// larger one counted.
    pub(crate) async fn refund_where_charged(&self, call: Call<'_>) -> Result<(), StoreError> {
        for (i, key) in call.keys.iter().enumerate() {
            let begun = |error| if i > 0 { has_begun(error) } else { error };
            let mut key = key.clone();
            if !key.entry.is_by_time()
                && let Some((entry, prefix)) =
                    self.charged_under(call, &key).await.map_err(begun)?
            {
                key = KeyCharge { entry, prefix, ..key };
            }
            let action = Action::Apply(Verb::Refund);
            let keys = std::slice::from_ref(&key);
            self.run(Call { action, keys, ..call }).await.map_err(begun)?;
        }
        Ok(())
    }

    /// The policy under which a key has a record, if it is not its own, and what stands before that.
    async fn charged_under(
        &self,
        call: Call<'_>,
        key: &KeyCharge,
    ) -> Result<Option<(Arc<Entry>, Vec<u8>)>, StoreError> {
        let slot = key.record.slot;
        let expected = call.at.unwrap_or_else(|| self.route.expected_now(slot));
        let keys = std::slice::from_ref(key);
        let peek = Call { action: Action::Apply(Verb::Peek), keys, ..call };
        let known = Known { translation: None, is_due_declared: false };
        let request = peek.request(&[known], None, expected);
        let values = self.route.send(slot, request, call.by).await?;
        let [Value::Int(now), Value::Array(reply)] = &*values else { return Err(bad_reply()) };
        let [Value::Int(1), Value::BulkString(found)] = &**reply else { return Ok(None) };
        let (parts, now) = (Parts::of(found).ok_or_else(foreign)?, instant(*now)?);
        self.compare_override(key, parts.kept.clone(), now)?;
        if parts.state.is_empty() {
            return Ok(None);
        }
        let prefix = found[..found.len() - parts.state.len()].to_vec();
        let there = match parts.written_by() {
            Some(written_by) => self.writer(&key.entry, &written_by, now, call.by).await?,
            None => {
                let tag = Tag::of_record(parts.state).ok_or_else(foreign)?;
                let there = self.definition(&key.entry, tag, now, call.by).await?;
                there.map(|there| there.entry).filter(|there| self.is_served(there))
            }
        };
        Ok(there.map(|there| (there, prefix)))
    }
}

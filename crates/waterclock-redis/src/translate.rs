//! Records that were written by another definition of a policy, or by another policy that shares its keys.

use std::sync::Arc;

use redis::Value;
use tokio::time::Instant;
use waterclock::{StoreError, Timestamp, Verb};

use crate::call::{Action, Call, KeyCharge, Known, bad_reply, foreign, instant};
use crate::direct::Direct;
use crate::due;
use crate::keyspace::Tag;
use crate::policies::Entry;
use crate::shape::Translation;
use crate::state::KeyState;

impl Direct {
    /// Translates a record that was written by another definition. What is more than the new limits hold is kept if it
    /// will be read by the other definition again and the call charges it whatever there is room for.
    pub(crate) async fn translate(
        &self,
        to: &Entry,
        (found, list): (&[u8], Vec<u8>),
        charges_always: bool,
        now: Timestamp,
        by: Instant,
    ) -> Result<Translation, StoreError> {
        let tag = Tag::of_record(found).ok_or_else(foreign)?;
        let (from, is_used) = if tag == Tag::ANY {
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
        let state = KeyState::of_record(&from.policy, &from.shape, found, now);
        let migration = to.family.as_ref().map(|family| family.migration).unwrap_or_default();
        let keeps_excess = is_used && charges_always;
        let state = state.map_err(|_| foreign())?;
        let carried = state.carried(&from.policy, &to.policy, migration, keeps_excess);
        let record = carried.record(&to.policy, &to.shape).unwrap_or_default();
        let translated = match due::is_noted(found) {
            true => due::translated(&list, &from, to).ok_or_else(foreign)?,
            false => Vec::new(),
        };
        let (found, due) = (found.to_vec(), [list, translated]);
        Ok(Translation { found, record, due, moves: !is_used })
    }

    /// Refunds units under the policies that the keys were last charged under: a smaller limit would drop usage that a
    /// larger one counted.
    pub(crate) async fn refund_where_charged(&self, call: Call<'_>) -> Result<(), StoreError> {
        for key in call.keys {
            let mut key = key.clone();
            if key.entry.has_siblings()
                && let Some(there) = self.charged_under(call, &key).await?
            {
                key = KeyCharge { entry: there, ..key };
            }
            let action = Action::Apply(Verb::Refund);
            self.run(Call { action, keys: std::slice::from_ref(&key), ..call }).await?;
        }
        Ok(())
    }

    /// The policy under which a key has a record, if it is not its own.
    async fn charged_under(
        &self,
        call: Call<'_>,
        key: &KeyCharge,
    ) -> Result<Option<Arc<Entry>>, StoreError> {
        let slot = key.record.slot;
        let expected = call.at.unwrap_or_else(|| self.route.expected_now(slot));
        let keys = std::slice::from_ref(key);
        let peek = Call { action: Action::Apply(Verb::Peek), keys, ..call };
        let known = Known { translation: None, is_due_declared: false };
        let request = peek.request(&[known], None, expected);
        let values = self.route.send(slot, request, call.by).await?;
        let [Value::Int(now), Value::Array(reply)] = &*values else { return Err(bad_reply()) };
        let [Value::Int(1), Value::BulkString(found)] = &**reply else { return Ok(None) };
        let tag = Tag::of_record(found).ok_or_else(foreign)?;
        let there = self.definition(&key.entry, tag, instant(*now)?, call.by).await?;
        Ok(there.map(|there| there.entry).filter(|there| self.is_served(there)))
    }
}

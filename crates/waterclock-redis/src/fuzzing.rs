//! What is read from Redis, without Redis: for fuzz targets, and no part of the API.

use std::sync::Arc;

use redis::Value;
use waterclock::{Answer, Cost, Migration, Policy, Serving, StoreError, Timestamp, Verb};
use waterclock_core::store::Persist as _;

use crate::cluster::read_range;
use crate::due;
use crate::keyspace::Tag;
use crate::policies::{Entry, registered_definition};
use crate::prefix::Parts;
use crate::reservation::rewritten_note;
use crate::state::KeyState;

/// The records of one policy.
pub struct Records {
    entry: Arc<Entry>,
}

impl Records {
    /// Those of this policy.
    pub fn new(policy: Policy) -> Result<Records, StoreError> {
        Ok(Records { entry: Arc::new(Entry::new(policy, Serving::default(), None)?) })
    }

    /// What a record, or with `is_reply` a script's account of it, means to a call. The record of the state after that
    /// comes with it; `None` if it is fresh.
    pub fn answer(
        &self,
        record: &[u8],
        is_reply: bool,
        now: Timestamp,
        (verb, cost): (Verb, &Cost),
    ) -> Option<(Answer, Option<Vec<u8>>)> {
        let Entry { policy, shape, .. } = &*self.entry;
        let state = match is_reply {
            true => KeyState::of_reply(policy, shape, Some(record), now),
            false => KeyState::of_record(policy, shape, record, now),
        };
        let mut state = state.ok()?;
        let answer = state.answer(policy, verb, cost);
        Some((answer, state.record(policy, shape)))
    }

    /// What a record means to another policy: the record that takes its place.
    pub fn carried(&self, record: &[u8], to: &Records, now: Timestamp) -> Option<Vec<u8>> {
        let Entry { policy, shape, .. } = &*self.entry;
        let state = KeyState::of_record(policy, shape, record, now).ok()?;
        let carried = state.carried(policy, &to.entry.policy, Migration::default(), false);
        carried.record(&to.entry.policy, &to.entry.shape)
    }

    /// What is due of a key, as another policy has it.
    pub fn due(&self, list: &[u8], to: &Records) -> Option<Vec<u8>> {
        due::translated(list, &self.entry, &to.entry)
    }

    /// A definition that another node has registered for this policy.
    pub fn definition(&self, registered: &[u8]) -> Option<Records> {
        let entry = registered_definition(&self.entry, Tag::ANY, registered)?;
        Some(Records { entry })
    }

    /// Its limits as text.
    pub fn text(&self) -> String {
        self.entry.policy.definition()
    }
}

/// What stands before a record, written once more, and how long the rest is. `None` if it cannot be read.
pub fn prefix(record: &[u8]) -> Option<(Vec<u8>, usize)> {
    let parts = Parts::of(record)?;
    let kept = parts.kept.as_ref().map_or_else(Vec::new, |kept| kept.bytes.clone());
    let by = parts.by.as_ref().map_or_else(Vec::new, |by| by.bytes());
    _ = (parts.written_by(), Tag::of_record(parts.state), due::is_noted(parts.state));
    Some(([kept, by].concat(), parts.state.len()))
}

/// The record of a reservation, written once more. `None` if it cannot be read.
pub fn note(record: &[u8]) -> Option<Vec<u8>> {
    rewritten_note(record)
}

/// The first slot, the last and the owner in an element of what a node at this address answers to `CLUSTER SLOTS`.
pub fn cluster_slots(asked: &str, element: &Value) -> Option<(usize, usize, String)> {
    read_range(asked, element)
}

/// Any reply, as the bytes of the Redis protocol.
pub fn reply(bytes: &[u8]) -> Option<Value> {
    redis::parse_redis_value(bytes).ok()
}

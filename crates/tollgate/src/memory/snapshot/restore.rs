use std::io::Read;

use tollgate_core::{State, Timestamp};

use super::RestoreError;
use super::parse::{Parsed, SavedPolicy, SavedShard, parse};
use super::words::Words;
use crate::clock::Clock;
use crate::memory::{MemoryStore, Shared};
use crate::table::{Saved, Table, WrittenBy};

/// What was restored of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// Keys that remember again.
    pub keys: usize,
    /// Keys that were fresh again by now.
    pub fresh: usize,
    /// Keys of policies that the store was not given.
    pub unknown_keys: usize,
    /// The names of those policies.
    pub unknown_policies: Vec<String>,
    /// When the snapshot was written.
    pub written_at: Timestamp,
}

impl<C: Clock> MemoryStore<C> {
    /// Goes on from what [`snapshot`](Self::snapshot) wrote. Call it when the policies are set and before
    /// the first check.
    ///
    /// Where a policy has other numbers by now, what was spent is carried over as by a change of policy.
    /// A clock that is earlier than the snapshot's grants nothing: what was used is used now. If
    /// `max_keys` is smaller by now, all keys come back, and no new ones get a place until there is room.
    ///
    /// All or nothing: after an error the store is as it was.
    pub fn restore(&self, from: &mut impl Read) -> Result<Restored, RestoreError> {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes)?;
        let parsed = parse(&bytes)?;
        self.shared.hasher.adopt(parsed.seed, parsed.probe)?;
        Ok(self.shared.put_back(parsed))
    }
}

impl<C: Clock> Shared<C> {
    fn put_back(&self, parsed: Parsed<'_>) -> Restored {
        let mut restored = Restored { written_at: parsed.written_at, ..Restored::default() };
        for saved in parsed.policies {
            let table = self.tables().get(saved.name).cloned();
            let Some(table) = table else {
                let keys: u64 = saved.shards.iter().map(|shard| shard.keys).sum();
                restored.unknown_keys += usize::try_from(keys).unwrap_or(usize::MAX);
                if !restored.unknown_policies.iter().any(|known| known == saved.name) {
                    restored.unknown_policies.push(saved.name.to_owned());
                }
                continue;
            };
            let same = table.policy().definition() == saved.definition;
            for shard in &saved.shards {
                self.put_back_shard(&table, &saved, same, shard, &mut restored);
            }
        }
        restored
    }

    fn put_back_shard(
        &self,
        table: &Table,
        saved: &SavedPolicy<'_>,
        same: bool,
        shard: &SavedShard<'_>,
        restored: &mut Restored,
    ) {
        let now = self.clock.now();
        let by = if same { WrittenBy::TheSame } else { WrittenBy::Another(&saved.policy) };
        let mut state = Saved::default();
        let read = |words: &mut Words<'_>, state: &mut Saved| {
            words.state(&saved.policy, state)?;
            let mut written = State::new(&mut state.words, &mut state.logs);
            saved.policy.rewind(&mut written, shard.latest, now);
            Some(())
        };
        let mut words = shard.words;
        if shard.has_overflow && read(&mut words, &mut state).is_some() {
            table.put_back_overflow(shard.range, by, &state, now);
        }
        table.expect(shard.range, shard.keys);
        for _ in 0..shard.keys {
            // It was read before: it is there.
            let Some(fingerprint) = words.next() else { return };
            if read(&mut words, &mut state).is_none() {
                return;
            }
            if table.put_back(fingerprint, by, &state, now) {
                restored.keys += 1;
            } else {
                restored.fresh += 1;
            }
        }
    }
}

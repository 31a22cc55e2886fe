use std::io::Read;

use waterclock_core::Timestamp;
use waterclock_core::store::{Persist as _, State};

use super::RestoreError;
use super::parse::{Parsed, SavedFamily, SavedPolicy, SavedShard, parse};
use super::specials::parse_special;
use super::words::Words;
use crate::clock::Clock;
use crate::memory::{Member, MemoryStore, Shared};
use crate::sync::Arc;
use crate::table::{Key, Saved, Table, Variant, WrittenBy};

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
        self.shared.keep_all(&parsed.kept);
        Ok(self.shared.put_back(parsed))
    }
}

impl<C: Clock> Shared<C> {
    fn put_back(&self, parsed: Parsed<'_>) -> Restored {
        let mut restored = Restored { written_at: parsed.written_at, ..Restored::default() };
        for family in parsed.families {
            let name = family.members[0].name;
            let base = self.members().get(name).filter(|member| member.is_base()).cloned();
            let Some(base) = base else {
                let keys: u64 = family.shards.iter().map(|shard| shard.keys).sum();
                restored.unknown_keys += usize::try_from(keys).unwrap_or(usize::MAX);
                if !restored.unknown_policies.iter().any(|known| known == name) {
                    restored.unknown_policies.push(name.to_owned());
                }
                continue;
            };
            let homes: Vec<Home<'_>> =
                family.members.iter().map(|saved| self.home(&base, saved)).collect();
            for shard in &family.shards {
                self.put_back_shard(&base.table, &family, &homes, shard, &mut restored);
                let now = self.clock.now();
                let (count, mut words) = shard.specials.unwrap_or((0, shard.words));
                for _ in 0..count {
                    // It was read before: it is there.
                    let Some(saved) = parse_special(&mut words) else { break };
                    let is_back = self.put_back_special(name, &base, saved, (shard.latest, now));
                    *if is_back { &mut restored.keys } else { &mut restored.fresh } += 1;
                }
            }
        }
        restored
    }

    /// Where the keys of a member go on: under the same member, if there is one, or else under the base.
    fn home<'a>(&self, base: &Member, saved: &'a SavedPolicy<'_>) -> Home<'a> {
        let named = self.members().get(saved.name).cloned();
        let same_family = |member: &Member| Arc::ptr_eq(&member.table, &base.table);
        match named.filter(same_family) {
            None => Home { variant: Variant::BASE, by: WrittenBy::Sibling(&saved.policy) },
            Some(Member { table, variant }) => {
                let same = table.policy(variant).definition() == saved.definition;
                let another = WrittenBy::Another(&saved.policy);
                Home { variant, by: if same { WrittenBy::TheSame } else { another } }
            }
        }
    }

    fn put_back_shard(
        &self,
        table: &Table,
        family: &SavedFamily<'_>,
        homes: &[Home<'_>],
        shard: &SavedShard<'_>,
        restored: &mut Restored,
    ) {
        let now = self.clock.now();
        let mut state = Saved::default();
        let read = |words: &mut Words<'_>, state: &mut Saved| {
            let number = family.state(words, state)?;
            let mut written = State::new(&mut state.words, &mut state.logs);
            family.members[number].policy.rewind(&mut written, shard.latest, now);
            Some(homes[number])
        };
        let mut words = shard.words;
        if shard.has_overflow
            && let Some(Home { variant, by }) = read(&mut words, &mut state)
        {
            table.put_back_overflow(shard.range, variant, by, &state, now);
        }
        table.expect(shard.range, shard.keys);
        for _ in 0..shard.keys {
            // It was read before: it is there.
            let Some(fingerprint) = words.next() else { return };
            let Some(Home { variant, by }) = read(&mut words, &mut state) else { return };
            if table.put_back(Key::new(fingerprint, variant), by, &state, now) {
                restored.keys += 1;
            } else {
                restored.fresh += 1;
            }
        }
    }
}

/// Under which member keys go on, and by whom they were written.
#[derive(Clone, Copy)]
struct Home<'a> {
    variant: Variant,
    by: WrittenBy<'a>,
}

use std::collections::HashMap;
use std::io::{self, Write};

use waterclock_core::Policy;
use waterclock_core::store::Persist as _;

use super::words::{Summed, push_text};
use super::{END, MAGIC, POLICY, SHARD, SPECIALS, VERSION_WITH_KEPT, kept};
use crate::clock::Clock;
use crate::memory::MemoryStore;
use crate::sync::{Arc, lock};
use crate::table::{Family, Variant};

/// What was written into a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// Keys with something to remember.
    pub keys: usize,
    /// How long the snapshot is.
    pub bytes: u64,
}

impl<C: Clock> MemoryStore<C> {
    /// Writes what is remembered, so that [`restore`](Self::restore) can go on from there.
    ///
    /// Checks go on meanwhile: one shard at a time is looked at under its lock, which takes
    /// microseconds. So each key is in it as it was at some instant of the writing.
    ///
    /// The snapshot is good when this returns `Ok`, and not before: write to a new file, and put it in
    /// the old one's place then.
    pub fn snapshot(&self, out: &mut impl Write) -> io::Result<Saved> {
        let shared = &*self.shared;
        let mut out = Summed::new(out);
        let mut keys = 0;
        let (mut version, kept) = kept::section(&lock(&shared.kept));
        if shared.places.overrides() > 0 {
            version = VERSION_WITH_KEPT;
        }
        let mut words = vec![MAGIC, version, shared.clock.now().as_nanos()];
        words.extend(shared.hasher.seed());
        words.push(shared.hasher.probe());
        words.extend(kept);
        out.write(&words)?;
        for table in shared.tables() {
            let mut under: Option<(Arc<Family>, HashMap<Variant, u64>)> = None;
            // Shards are split while the table grows: the next one starts where this one ends.
            let mut next = Some(0);
            while let Some(first) = next {
                words.clear();
                let locked = table.lock(first);
                let range = locked.range();
                next = range.next();
                let family = locked.shard.family();
                // A policy changes shard by shard, too: then both families are written.
                let variants = match &under {
                    Some((before, variants)) if Arc::ptr_eq(before, family) => variants,
                    _ => {
                        let variants = push_family(family, &mut words);
                        &under.insert((Arc::clone(family), variants)).1
                    }
                };
                words.push(SHARD);
                let now = shared.clock.now();
                keys += locked.shard.save(now, range, variants, &mut words);
                if locked.shard.has_specials() {
                    words.push(SPECIALS);
                    keys += locked.shard.save_specials(now, &mut words);
                }
                drop(locked);
                out.write(&words)?;
            }
        }
        out.write(&[END])?;
        Ok(Saved { keys, bytes: out.finish()? })
    }
}

/// Adds the definitions of a family; by which number each variant goes.
fn push_family(family: &Family, words: &mut Vec<u64>) -> HashMap<Variant, u64> {
    let mut variants: Vec<_> = family.variants().collect();
    variants.sort_by_key(|(_, policy)| policy.name());
    words.push(POLICY);
    push_policy(family.base(), words);
    words.push(variants.len() as u64);
    variants.iter().for_each(|(_, policy)| push_policy(policy, words));
    variants.into_iter().map(|(variant, _)| variant).zip(1..).collect()
}

fn push_policy(policy: &Policy, words: &mut Vec<u64>) {
    push_text(policy.name(), words);
    push_text(&policy.definition(), words);
}

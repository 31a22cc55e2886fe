use std::io::{self, Write};

use super::words::{Summed, push_text};
use super::{END, MAGIC, POLICY, SHARD, VERSION};
use crate::clock::Clock;
use crate::memory::MemoryStore;
use crate::sync::Arc;

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
        let mut words = vec![MAGIC, VERSION, shared.clock.now().as_nanos()];
        words.extend(shared.hasher.seed());
        words.push(shared.hasher.probe());
        out.write(&words)?;
        let mut tables: Vec<_> = shared.tables().values().cloned().collect();
        tables.sort_by_key(|table| table.policy().name().to_owned());
        for table in tables {
            let mut under = None;
            for number in 0..table.shards() {
                words.clear();
                let locked = table.lock(number);
                let policy = locked.shard.policy();
                // Whoever changes the policy goes through the shards, too: both are found then.
                if !under.as_ref().is_some_and(|before| Arc::ptr_eq(before, policy)) {
                    words.push(POLICY);
                    push_text(policy.name(), &mut words);
                    push_text(&policy.definition(), &mut words);
                    under = Some(Arc::clone(policy));
                }
                words.push(SHARD);
                let range = table.range(number);
                keys += locked.shard.save(shared.clock.now(), range, &mut words);
                drop(locked);
                out.write(&words)?;
            }
        }
        out.write(&[END])?;
        Ok(Saved { keys, bytes: out.finish()? })
    }
}

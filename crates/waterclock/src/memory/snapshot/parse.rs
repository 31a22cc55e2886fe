//! Parses a snapshot. Everything is validated before anything is restored.

use waterclock_core::store::Persist as _;
use waterclock_core::{Policy, Timestamp};

use super::kept::SavedTexts;
use super::specials::parse_special;
use super::words::{Words, sum_holds};
use super::{END, KEPT, MAGIC, POLICY, RestoreError, SHARD, SPECIALS, VERSION, VERSION_WITH_KEPT};
use crate::memory::hasher::Seed;
use crate::table::{Saved, ShardRange};

/// A valid snapshot.
pub(super) struct Parsed<'a> {
    pub(super) written_at: Timestamp,
    pub(super) seed: Seed,
    /// The hash of a known key, by the writer's hasher.
    pub(super) probe: u64,
    /// Policies that are kept as text.
    pub(super) kept: SavedTexts<'a>,
    pub(super) families: Vec<SavedFamily<'a>>,
}

/// The shards that were written under the same definitions. A policy may have several, if it changed
/// meanwhile.
pub(super) struct SavedFamily<'a> {
    /// The policy that the family is named by, and its variants.
    pub(super) members: Vec<SavedPolicy<'a>>,
    pub(super) shards: Vec<SavedShard<'a>>,
}

pub(super) struct SavedPolicy<'a> {
    pub(super) name: &'a str,
    pub(super) definition: &'a str,
    pub(super) policy: Policy,
}

pub(super) struct SavedShard<'a> {
    /// The latest instant it had seen.
    pub(super) latest: Timestamp,
    pub(super) range: ShardRange,
    pub(super) has_overflow: bool,
    pub(super) keys: u64,
    /// The overflow entry, if there is one, and the keys.
    pub(super) words: Words<'a>,
    /// How many keys with limits of their own, and those.
    pub(super) specials: Option<(u64, Words<'a>)>,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Parsed<'_>, RestoreError> {
    parse_body(open(bytes)?).ok_or(RestoreError::Damaged)
}

/// What follows the version, if the sum holds.
pub(super) fn open(bytes: &[u8]) -> Result<Words<'_>, RestoreError> {
    let mut words = Words(bytes);
    if words.next() != Some(MAGIC) {
        return Err(RestoreError::Foreign);
    }
    match words.next() {
        Some(VERSION | VERSION_WITH_KEPT) => {}
        Some(other) => return Err(RestoreError::Version(other)),
        None => return Err(RestoreError::Damaged),
    }
    if !sum_holds(bytes) {
        return Err(RestoreError::Damaged);
    }
    Ok(words)
}

fn parse_body(mut words: Words<'_>) -> Option<Parsed<'_>> {
    let written_at = Timestamp::from_nanos(words.next()?);
    let seed = [words.next()?, words.next()?, words.next()?, words.next()?];
    let probe = words.next()?;
    let mut families: Vec<SavedFamily<'_>> = Vec::new();
    let mut kept = SavedTexts::new();
    loop {
        match words.next()? {
            POLICY => {
                let mut members = vec![parse_policy(&mut words)?];
                for _ in 0..words.next()? {
                    members.push(parse_policy(&mut words)?);
                }
                families.push(SavedFamily { members, shards: Vec::new() });
            }
            SHARD => {
                let family = families.last_mut()?;
                let shard = parse_shard(&mut words)?;
                // A second reading will find the same.
                shard.walk(family, &mut words)?;
                family.shards.push(shard);
            }
            SPECIALS => {
                let shard = families.last_mut()?.shards.last_mut()?;
                let count = words.next()?;
                shard.specials = Some((count, words));
                for _ in 0..count {
                    parse_special(&mut words)?;
                }
            }
            KEPT => kept = words.texts()?,
            END => break,
            _ => return None,
        }
    }
    // The sum is all that is left.
    words.next()?;
    words.0.is_empty().then_some(Parsed { written_at, seed, probe, kept, families })
}

fn parse_shard<'a>(words: &mut Words<'a>) -> Option<SavedShard<'a>> {
    let latest = Timestamp::from_nanos(words.next()?);
    let range = ShardRange::new(words.next()?, words.next()?)?;
    let has_overflow = words.next()? == 1;
    let keys = words.next()?;
    Some(SavedShard { latest, range, has_overflow, keys, words: *words, specials: None })
}

fn parse_policy<'a>(words: &mut Words<'a>) -> Option<SavedPolicy<'a>> {
    let (name, definition) = (words.text()?, words.text()?);
    let policy = Policy::from_definition(name, definition)?;
    Some(SavedPolicy { name, definition, policy })
}

impl SavedFamily<'_> {
    /// Reads a state in place of what was in `saved`; by which member it was written.
    pub(super) fn state(&self, words: &mut Words<'_>, saved: &mut Saved) -> Option<usize> {
        let number = if self.members.len() > 1 { usize::try_from(words.next()?).ok()? } else { 0 };
        let member = self.members.get(number)?;
        words.state(&member.policy, saved)?;
        Some(number)
    }
}

impl SavedShard<'_> {
    fn walk(&self, family: &SavedFamily<'_>, words: &mut Words<'_>) -> Option<()> {
        let mut state = Saved::default();
        if self.has_overflow {
            family.state(words, &mut state)?;
        }
        for _ in 0..self.keys {
            words.next().filter(|fingerprint| *fingerprint != 0)?;
            family.state(words, &mut state)?;
        }
        Some(())
    }
}

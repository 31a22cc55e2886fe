//! What a store needs: the state of a key, and the functions that decide on it and change it.
//!
//! Callers of a limiter or a store need none of this. A store keeps [words](Decide::words) (and [`Logs`])
//! for every key, guards them, and applies one of these to them:
//!
//! | trait | for |
//! |---|---|
//! | [`Decide`] | a check, step by step: judge every limit, record in all or none, answer |
//! | [`Reserve`] | units that are held first and settled later |
//! | [`Migrate`] | keys whose policy changes, or that are checked under variants of one policy |
//! | [`Persist`] | states that were kept elsewhere: snapshots, and records of other stores |
//!
//! All of them are implemented by [`Policy`](crate::Policy). They take the time, allocate nothing for a
//! decision, and never panic on a state that they wrote themselves.

mod decide;
mod definition;
mod logs;
mod migrate;
mod one_limit;
mod persist;
mod reserve;
mod several;
mod verdict;
mod wait;

pub use decide::Decide;
pub(crate) use logs::Log;
pub use logs::Logs;
pub use migrate::{Migrate, Migration};
pub use one_limit::OneWord;
pub(crate) use one_limit::alone;
pub use persist::Persist;
pub use reserve::{Reserve, ReservedUnits};
pub(crate) use several::MOST_WORDS;
pub use verdict::Verdict;
pub(crate) use wait::fixed_point;

mod sealed {
    /// The traits here are implemented by `Policy` only, so that they can grow.
    pub trait Sealed {}
    impl Sealed for crate::Policy {}
}
use sealed::Sealed;

/// What one key remembers, for reading: words (all zero when fresh) and the logs they point into.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) words: &'a [u64],
    pub(crate) logs: &'a Logs,
}

impl<'a> View<'a> {
    /// A view of the words of one key.
    #[must_use]
    pub fn new(words: &'a [u64], logs: &'a Logs) -> Self {
        Self { words, logs }
    }

    #[inline]
    pub(crate) fn part(self, start: usize, len: usize) -> Self {
        View { words: &self.words[start..start + len], logs: self.logs }
    }
}

/// What one key remembers, for writing.
#[derive(Debug)]
pub struct State<'a> {
    pub(crate) words: &'a mut [u64],
    pub(crate) logs: &'a mut Logs,
}

impl<'a> State<'a> {
    /// The words of one key: [`Decide::words`] of them, all zero for a fresh key.
    #[must_use]
    pub fn new(words: &'a mut [u64], logs: &'a mut Logs) -> Self {
        Self { words, logs }
    }

    /// The same state, for reading.
    #[must_use]
    #[inline]
    pub fn view(&self) -> View<'_> {
        View { words: self.words, logs: self.logs }
    }

    #[inline]
    pub(crate) fn reborrow(&mut self) -> State<'_> {
        State { words: self.words, logs: self.logs }
    }

    #[inline]
    pub(crate) fn part(&mut self, start: usize, len: usize) -> State<'_> {
        State { words: &mut self.words[start..start + len], logs: self.logs }
    }
}

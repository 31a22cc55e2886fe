//! An event of a log, in room that is used again for others.

use std::borrow::Cow;

use waterclock::Cost;

use crate::trace::event::{Event, Op};

/// When, whose and how much.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) t_us: u64,
    pub(super) key: String,
    pub(super) cost: Option<Cost>,
    pub(super) has_tier: bool,
    pub(super) tier: String,
    /// The keys of the policies after the first, where each makes its own.
    pub(super) other_keys: Vec<String>,
}

/// Room that is kept, in bytes. Keys that need more are rare, and must not add up.
const ROOM: usize = 1 << 10;

impl Entry {
    /// Whether its room is worth keeping.
    pub(super) fn is_small(&self) -> bool {
        let others: usize = self.other_keys.iter().map(String::capacity).sum();
        self.key.capacity() + self.tier.capacity() + others <= ROOM
    }

    /// The text it holds on to, in bytes.
    pub(super) fn size(&self) -> usize {
        let others: usize = self.other_keys.iter().map(String::len).sum();
        self.key.len() + self.tier.len() + others
    }

    pub(super) fn event(&self) -> Event<'_> {
        Event {
            t_us: self.t_us,
            key: Cow::Borrowed(&self.key),
            cost: self.cost.clone(),
            op: Op::Check,
            tier: self.has_tier.then_some(Cow::Borrowed(self.tier.as_str())),
            other_keys: Cow::Borrowed(&self.other_keys),
        }
    }
}

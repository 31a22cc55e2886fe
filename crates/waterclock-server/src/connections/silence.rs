//! Strangers in the order in which they fell silent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Guest;

/// Strangers by their last event, or by an earlier one: entries are moved when their turn to be closed comes.
#[derive(Default)]
pub(super) struct Silence(BTreeMap<u64, Arc<Guest>>);

/// Which of the two lists of a stranger.
#[derive(Clone, Copy)]
pub(super) enum List {
    Face,
    Address,
}

impl Silence {
    pub(super) fn insert(&mut self, list: List, event: u64, guest: Arc<Guest>) {
        guest.listed[list as usize].store(event, Ordering::Relaxed);
        self.0.insert(event, guest);
    }

    pub(super) fn remove(&mut self, list: List, guest: &Guest) -> Option<Arc<Guest>> {
        self.0.remove(&guest.listed[list as usize].load(Ordering::Relaxed))
    }

    /// The stranger that has been silent longest, if there are more than so many. Each entry that is moved stands for a
    /// request since the last time, so this takes no longer than the requests did.
    pub(super) fn excess(&mut self, list: List, most: usize) -> Option<Arc<Guest>> {
        if self.0.len() <= most {
            return None;
        }
        for _ in 0..self.0.len() {
            let entry = self.0.first_entry()?;
            let last = entry.get().last.load(Ordering::Relaxed);
            if *entry.key() == last {
                break;
            }
            let guest = entry.remove();
            self.insert(list, last, guest);
        }
        self.0.first_key_value().map(|(_, guest)| Arc::clone(guest))
    }
}

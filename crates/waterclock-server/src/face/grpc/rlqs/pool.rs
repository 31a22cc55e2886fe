//! The proxies that spend from one key, and how its units are divided among them. No clock, no store: both are the
//! caller's.
//!
//! A turn: the caller refunds what [`Pool::turn`] returns, charges the store with what it asks for, as far as that is
//! there, and sends what [`Pool::divide`] makes of it.
//!
//! Where there are fewer units than proxies need, they are divided evenly, except that no proxy gets more than it needs
//! (max-min fairness). What a proxy needs follows from the requests that it reported, refused ones included.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use waterclock::Timestamp;

use super::share::{Assignment, Grant, Share, Supply, Usage};

/// The longest pace.
const MAX_PACE: Duration = Duration::from_secs(1);
/// The shortest.
const MIN_PACE: Duration = Duration::from_millis(100);

/// Names a share; each is used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ShareId(pub(super) u64);

/// What a turn asks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// To be given back first.
    pub(super) refund: u64,
    /// To be charged, as far as that is there.
    pub(super) ask: u64,
}

/// The proxies that spend from one key.
#[derive(Debug)]
pub(super) struct Pool {
    shares: BTreeMap<ShareId, Share>,
    most: u64,
    pace: Duration,
    is_short: bool,
    /// Units to be given back.
    surplus: u64,
    last_turn: Timestamp,
}

/// What a division has decided.
#[derive(Debug, Default)]
pub(super) struct Divided {
    pub(super) assignments: Vec<(ShareId, Assignment)>,
    /// Units that no share needs any more.
    pub(super) left: u64,
}

impl Pool {
    /// A pool of a key that admits so many units at once, and gets as many in `refills`; none for windows.
    pub(super) fn new(most: Option<u64>, refills: Option<Duration>) -> Pool {
        let mut pool = Pool {
            shares: BTreeMap::new(),
            most: 1,
            pace: MAX_PACE,
            is_short: false,
            surplus: 0,
            last_turn: Timestamp::from_nanos(0),
        };
        pool.set_numbers(most, refills);
        pool
    }

    /// The same after a change of the policy.
    pub(super) fn set_numbers(&mut self, most: Option<u64>, refills: Option<Duration>) {
        let units = u64::from(u32::MAX);
        self.most = most.unwrap_or(units).clamp(1, units);
        // A bucket that is full loses what comes next, so it is emptied before that.
        self.pace = (refills.unwrap_or(MAX_PACE) / 2).clamp(MIN_PACE, MAX_PACE);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    pub(super) fn contains(&self, id: ShareId) -> bool {
        self.shares.contains_key(&id)
    }

    /// A proxy has reported the bucket for the first time on its stream.
    pub(super) fn join(&mut self, now: Timestamp, id: ShareId) {
        self.shares.insert(id, Share::new(now));
    }

    /// A stream has ended, or uses another pool. What the proxy holds stays charged: it may still spend it.
    pub(super) fn leave(&mut self, id: ShareId) {
        self.shares.remove(&id);
    }

    /// Takes a report. `false` for a share that is gone.
    #[must_use]
    pub(super) fn report(&mut self, now: Timestamp, id: ShareId, usage: Usage) -> bool {
        let Some(share) = self.shares.get_mut(&id) else { return false };
        self.surplus = self.surplus.saturating_add(share.report(now, usage, self.most));
        true
    }

    /// When the next turn is; none if there is nobody to divide for.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        let next = self.last_turn.after(self.pace);
        let due = |share: &Share| match share.is_new() {
            true => share.due_at(self.pace),
            false => share.due_at(self.pace).max(next),
        };
        self.shares.values().map(due).min()
    }

    /// Begins a turn.
    pub(super) fn turn(&mut self, now: Timestamp) -> Turn {
        self.last_turn = now;
        self.shares.retain(|_, share| !share.is_gone(now));
        let supply = self.supply();
        let asking = self.shares.values().filter(|share| self.asks(share, now));
        let ask = asking.fold(0_u64, |ask, share| ask.saturating_add(share.need(&supply)));
        Turn { refund: std::mem::take(&mut self.surplus), ask: ask.min(self.most) }
    }

    fn asks(&self, share: &Share, now: Timestamp) -> bool {
        share.takes_part(now, self.pace) && !share.is_idle(now)
    }

    fn supply(&self) -> Supply {
        let shares = u64::try_from(self.shares.len()).unwrap_or(u64::MAX);
        Supply { most: self.most, shares, pace: self.pace, is_short: self.is_short }
    }

    /// Divides what the store has charged among the proxies that need it.
    pub(super) fn divide(&mut self, now: Timestamp, grant: Grant) -> Divided {
        let supply = self.supply();
        let mut divided = Divided { assignments: self.abandon(now), left: grant.units };
        let asking = self.shares.iter().filter(|(_, share)| self.asks(share, now));
        let needs = asking.map(|(id, share)| (share.need(&supply), Reverse(share.fed_at()), *id));
        let mut needs: Vec<_> = needs.collect();
        // Who needs least is served first, and who has waited longest gets the unit that cannot be divided.
        needs.sort_unstable();
        let mut others = u64::try_from(needs.len()).unwrap_or(u64::MAX);
        self.is_short = false;
        for (need, _, id) in needs {
            let units = need.min(divided.left / others.max(1));
            others -= 1;
            self.is_short |= units < need;
            let Some(share) = self.shares.get_mut(&id) else { continue };
            divided.left -= units;
            let part = Grant { units, ..grant };
            divided.assignments.extend(share.receive(now, part).map(|told| (id, told)));
        }
        divided
    }

    /// Tells the proxies whose turn it is that all or nothing is admitted.
    pub(super) fn tell_all(&mut self, now: Timestamp, allows: bool) -> Divided {
        let mut divided = Divided { assignments: self.abandon(now), left: 0 };
        let pace = self.pace;
        let asking = self.shares.iter_mut().filter(|(_, share)| share.takes_part(now, pace));
        divided
            .assignments
            .extend(asking.map(|(id, share)| (*id, share.receive_blanket(now, allows))));
        divided
    }

    fn abandon(&mut self, now: Timestamp) -> Vec<(ShareId, Assignment)> {
        let is_over = |share: &Share| share.is_idle(now) && share.takes_part(now, self.pace);
        let idle = self.shares.iter().filter(|(_, share)| is_over(share));
        let idle: Vec<ShareId> = idle.map(|(id, _)| *id).collect();
        idle.iter().for_each(|id| self.leave(*id));
        idle.into_iter().map(|id| (id, Assignment::Abandon)).collect()
    }
}

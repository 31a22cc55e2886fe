//! One proxy's share of a pool: what it may spend, what it has reported, and what is left over.

use std::collections::VecDeque;
use std::time::Duration;

use waterclock::Timestamp;

use super::keeps::Keeps;
use super::{DELAY, IDLE, KEEP, RENEW, SILENCE, TTL};

/// How long a lease should last, where there is enough: until the next report is answered, and some more.
const REACH: Duration = Duration::from_secs(8);
/// Leases of a share whose units are told apart.
const MAX_LEASES: usize = 32;
/// Proxies cut the time since their last report to whole seconds.
const CUT: Duration = Duration::from_secs(1);

/// A proxy holds its part of one in so many units of the capacity, for requests that come after a quiet time.
const IDLE_PART: u64 = 8;

/// What a proxy is told about a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assignment {
    /// So many requests, and no more.
    Units(u32),
    AllowAll,
    DenyAll,
    Abandon,
}

impl Assignment {
    /// As a metric's label.
    pub(super) fn name(self) -> &'static str {
        match self {
            Assignment::Units(_) => "units",
            Assignment::AllowAll => "allow_all",
            Assignment::DenyAll => "deny_all",
            Assignment::Abandon => "abandon",
        }
    }
}

/// What a proxy did since its last report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) elapsed: Duration,
    pub(super) allowed: u64,
    pub(super) denied: u64,
}

/// Units that the store has charged, in one go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) units: u64,
    /// Before the store was asked.
    pub(super) taken: Timestamp,
    pub(super) keeps: Keeps,
}

/// What one assignment allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    /// None is any number.
    units: Option<u64>,
    taken: Timestamp,
    sent: Timestamp,
    keeps: Keeps,
}

/// How the pool is doing, as its shares need to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Supply {
    /// The most units of one lease.
    pub(super) most: u64,
    /// How many proxies take part.
    pub(super) shares: u64,
    /// How often units are divided where there are too few.
    pub(super) pace: Duration,
    /// Whether there were too few the last time.
    pub(super) is_short: bool,
}

/// One proxy's share.
#[derive(Debug)]
pub(super) struct Share {
    /// Leases that the proxy may have spent from since its last report, the one in force last.
    leases: VecDeque<Lease>,
    /// Units of these leases that no report has mentioned.
    unreported: u64,
    /// Requests that the proxy admitted without units: they are paid from the next ones.
    owed: u64,
    /// Requests a second, admitted or not.
    demand: u64,
    reported_at: Timestamp,
    /// How much longer than others the last report may have been under way.
    late: Duration,
    used_at: Timestamp,
    /// When it last got units, to tell whose turn it is.
    fed_at: Timestamp,
}

impl Share {
    pub(super) fn new(now: Timestamp) -> Share {
        Share {
            leases: VecDeque::new(),
            unreported: 0,
            owed: 0,
            demand: 0,
            reported_at: now,
            late: Duration::ZERO,
            used_at: now,
            fed_at: Timestamp::from_nanos(0),
        }
    }

    /// Takes a report, and returns how many units can go back to the store.
    ///
    /// The report was sent at most [`DELAY`] ago, and a lease arrived at most [`DELAY`] after it was sent. So a lease
    /// that another replaced twice that time ago was not spent from since the report: of its units, those that no report
    /// has mentioned never will be. A report that was under way for longer gives nothing back.
    pub(super) fn report(&mut self, now: Timestamp, usage: Usage, most: u64) -> u64 {
        self.note_time(now, usage.elapsed);
        let requests = usage.allowed.saturating_add(usage.denied);
        if requests > 0 {
            self.used_at = now;
        }
        let seconds = usage.elapsed.as_secs().max(1);
        self.demand = requests.div_ceil(seconds).max(self.demand / 2).min(u64::from(u32::MAX));
        let without = usage.allowed.saturating_sub(self.unreported);
        self.unreported -= usage.allowed - without;
        if self.leases.iter().all(|lease| lease.units.is_some()) {
            // More than the capacity is no debt that a proxy could ever pay.
            self.owed = self.owed.saturating_add(without).min(most);
        }
        if self.late + CUT > DELAY { 0 } else { self.give_back(now) }
    }

    /// Between two reports passes the time that the second one says, and up to a second more. What passes beside that,
    /// the second one was under way for longer than the first.
    fn note_time(&mut self, now: Timestamp, elapsed: Duration) {
        let between = now.since(self.reported_at);
        self.reported_at = now;
        let cut = if between < elapsed { Duration::ZERO } else { CUT };
        self.late = (self.late + between).saturating_sub(elapsed.saturating_add(cut));
    }

    fn give_back(&mut self, now: Timestamp) -> u64 {
        let Some(oldest) = self.leases.front().copied() else { return 0 };
        let mut keeps = oldest.keeps;
        while let Some(lease) = self.leases.front() {
            let replaced = self.leases.get(1).map(|next| next.sent);
            let over = replaced.unwrap_or_else(|| lease.sent.after(TTL)).after(2 * DELAY);
            if over > now {
                break;
            }
            keeps = keeps.and(lease.keeps);
            self.leases.pop_front();
        }
        let spendable: u64 = self.leases.iter().filter_map(|lease| lease.units).sum();
        let surplus = self.unreported.saturating_sub(spendable);
        self.unreported -= surplus;
        keeps.left(surplus, oldest.taken, now)
    }

    /// Whether its stream has forgotten the bucket.
    pub(super) fn is_gone(&self, now: Timestamp) -> bool {
        now.since(self.reported_at) >= SILENCE
    }

    /// Whether no request has come for a long time.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        now.since(self.used_at) >= IDLE
    }

    /// Whether it waits for its first assignment.
    pub(super) fn is_new(&self) -> bool {
        self.leases.is_empty()
    }

    /// When it needs another lease.
    pub(super) fn due_at(&self, pace: Duration) -> Timestamp {
        let Some(lease) = self.leases.back() else { return self.reported_at };
        let renew = lease.sent.after(RENEW);
        match lease.units {
            Some(units) if self.demand > 0 => {
                let lasts = Duration::from_nanos(nanos_for(units, self.demand));
                renew.min(lease.sent.after(lasts.saturating_sub(pace).max(pace)))
            }
            _ => renew,
        }
    }

    /// Whether it takes part in a division now: it needs a lease, or will soon.
    pub(super) fn takes_part(&self, now: Timestamp, pace: Duration) -> bool {
        self.due_at(pace) <= now.after(pace / 4)
    }

    /// How many units it asks for.
    pub(super) fn need(&self, supply: &Supply) -> u64 {
        let reach = if supply.is_short { 4 * supply.pace } else { REACH };
        let expected = u128::from(self.demand) * reach.as_nanos() / 1_000_000_000;
        let expected = u64::try_from(expected).unwrap_or(u64::MAX);
        let unexpected = match supply.is_short {
            true => 0,
            false => supply.most / (IDLE_PART * supply.shares.max(1)),
        };
        let want = expected.max(unexpected).saturating_add(1).min(supply.most);
        want.saturating_add(self.owed)
    }

    pub(super) fn fed_at(&self) -> Timestamp {
        self.fed_at
    }

    /// Takes its part of a grant. Returns what the proxy is to be told, if anything.
    pub(super) fn receive(&mut self, now: Timestamp, grant: Grant) -> Option<Assignment> {
        let paid = self.owed.min(grant.units);
        self.owed -= paid;
        let units = grant.units - paid;
        if units > 0 {
            self.fed_at = now;
        } else if self.leases.back().is_some_and(|lease| {
            let keep = if lease.units == Some(0) { RENEW } else { KEEP };
            now.since(lease.sent) < keep
        }) {
            return None;
        }
        self.unreported += units;
        let Grant { taken, keeps, .. } = grant;
        self.push(Lease { units: Some(units), taken, sent: now, keeps });
        Some(match u32::try_from(units) {
            Ok(0) => Assignment::DenyAll,
            // The most units of a lease are no more than that.
            units => Assignment::Units(units.unwrap_or(u32::MAX)),
        })
    }

    /// Puts a lease in force. If there are many, the two oldest become one, which is over when the younger is.
    fn push(&mut self, lease: Lease) {
        self.leases.push_back(lease);
        if self.leases.len() > MAX_LEASES
            && let Some(oldest) = self.leases.pop_front()
            && let Some(next) = self.leases.front_mut()
        {
            *next = Lease {
                units: oldest.units.zip(next.units).map(|(a, b)| a.saturating_add(b)),
                taken: oldest.taken,
                sent: next.sent,
                keeps: oldest.keeps.and(next.keeps),
            };
        }
    }

    /// Takes part in an assignment that no units limit.
    pub(super) fn receive_blanket(&mut self, now: Timestamp, allows: bool) -> Assignment {
        let units = (!allows).then_some(0);
        self.push(Lease { units, taken: now, sent: now, keeps: Keeps::NOTHING });
        if allows { Assignment::AllowAll } else { Assignment::DenyAll }
    }
}

/// How long so many units last.
fn nanos_for(units: u64, per_second: u64) -> u64 {
    let nanos = u128::from(units) * 1_000_000_000 / u128::from(per_second.max(1));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000_000 + millis * 1_000)
    }

    fn usage(elapsed: u64, allowed: u64) -> Usage {
        Usage { elapsed: Duration::from_secs(elapsed), allowed, denied: 0 }
    }

    fn grant(millis: u64, units: u64) -> Grant {
        Grant { units, taken: at(millis), keeps: Keeps::ALL }
    }

    /// A share with a lease of 100 since the beginning, replaced by one of 10 after three seconds.
    fn replaced() -> Share {
        let mut share = Share::new(at(0));
        assert_eq!(share.report(at(0), usage(0, 0), 1_000), 0);
        assert_eq!(share.receive(at(0), grant(0, 100)), Some(Assignment::Units(100)));
        assert_eq!(share.receive(at(3_000), grant(3_000, 10)), Some(Assignment::Units(10)));
        share
    }

    #[test]
    fn what_was_not_spent_goes_back() {
        let mut share = replaced();
        assert_eq!(share.report(at(5_000), usage(5, 40), 1_000), 0, "it may still be spent");
        assert_eq!(share.report(at(10_000), usage(5, 10), 1_000), 50);
        assert_eq!(share.report(at(15_000), usage(5, 0), 1_000), 0);
        // Half seconds are cut, always.
        let mut share = replaced();
        assert_eq!(share.report(at(5_900), usage(5, 40), 1_000), 0);
        assert_eq!(share.report(at(11_800), usage(5, 10), 1_000), 50);
    }

    /// A report that was sent before the lease was replaced does not know what was spent of it since.
    #[test]
    fn late_reports_give_nothing_back() {
        let mut share = replaced();
        // Sent after 2, 7 and 12 s, and all held up until then.
        for (elapsed, allowed, back) in [(2, 0, 0), (5, 100, 0), (5, 0, 0)] {
            assert_eq!(share.report(at(17_000), usage(elapsed, allowed), 1_000), back);
        }
        assert_eq!(share.report(at(17_500), usage(5, 0), 1_000), 10, "in time again");
    }

    #[test]
    fn leases_are_few() {
        let mut share = Share::new(at(0));
        for turn in 0..10_000 {
            assert!(share.receive(at(100 * turn), grant(100 * turn, 7)).is_some());
        }
        assert!(share.leases.len() <= MAX_LEASES);
        assert_eq!(share.unreported, 70_000);
        // The last one is not over yet.
        assert_eq!(share.report(at(1_010_000), usage(1_010, 1_000), 1_000), 70_000 - 1_000 - 7);
    }
}

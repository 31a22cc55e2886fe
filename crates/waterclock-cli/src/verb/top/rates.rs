//! From counters that only grow to rates: what happened between two looks.

use std::collections::VecDeque;
use std::time::Duration;

use super::snapshot::{PolicyTotals, Snapshot, Totals};

/// How many looks are remembered for the picture.
const REMEMBERED: usize = 240;

/// Decisions per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) allow: f64,
    pub(super) deny: f64,
    pub(super) shadow_deny: f64,
    pub(super) error: f64,
}

impl Rates {
    /// Between two counts of the same server; of one that fell, nothing can be said.
    fn between(before: Totals, after: Totals, time: Duration) -> Rates {
        let per_second = |before: u64, after: u64| {
            let grown = after.saturating_sub(before);
            if time.is_zero() { 0.0 } else { grown as f64 / time.as_secs_f64() }
        };
        Rates {
            allow: per_second(before.allow, after.allow),
            deny: per_second(before.deny, after.deny),
            shadow_deny: per_second(before.shadow_deny, after.shadow_deny),
            error: per_second(before.error, after.error),
        }
    }
}

/// The last look, with rates since the one before.
#[derive(Clone, Debug)]
pub(super) struct Now {
    pub(super) snapshot: Snapshot,
    pub(super) rates: Rates,
    /// In the order of the snapshot's policies.
    pub(super) by_policy: Vec<Rates>,
}

/// What was seen so far.
#[derive(Default)]
pub(super) struct Watched {
    now: Option<Now>,
    looks: usize,
    history: VecDeque<Rates>,
}

impl Watched {
    pub(super) fn take(&mut self, snapshot: Snapshot) {
        self.looks += 1;
        let before = self.now.as_ref().map(|now| &now.snapshot);
        let time = before.map_or(Duration::ZERO, |before| {
            Duration::from_micros(snapshot.at_us.saturating_sub(before.at_us))
        });
        // A server that was started again counts from nothing, and only its uptime tells: counts fall with
        // policies that a reload takes away, too.
        let before = before.filter(|before| snapshot.uptime_us >= before.uptime_us);
        let totals = before.map_or_else(Totals::default, |before| before.totals);
        let rates = Rates::between(totals, snapshot.totals, time);
        let of_policy = |policy: &PolicyTotals| {
            let was = match before {
                None => Some(Totals::default()),
                Some(before) => before.totals_of(&policy.name),
            };
            // Since when a policy that is new has counted, nobody knows: it has no rate yet.
            was.map_or_else(Rates::default, |was| Rates::between(was, policy.totals, time))
        };
        let by_policy = snapshot.policies.iter().map(of_policy).collect();
        if self.looks > 1 {
            if self.history.len() == REMEMBERED {
                self.history.pop_front();
            }
            self.history.push_back(rates);
        }
        self.now = Some(Now { snapshot, rates, by_policy });
    }

    pub(super) fn now(&self) -> Option<&Now> {
        self.now.as_ref()
    }

    pub(super) fn looks(&self) -> usize {
        self.looks
    }

    /// The latest values of one kind of rate, oldest first, rounded up: what is there is seen.
    pub(super) fn history(&self, most: usize, of: impl Fn(&Rates) -> f64) -> Vec<u64> {
        let skipped = self.history.len().saturating_sub(most);
        let whole = |rates: &Rates| of(rates).ceil().clamp(0.0, 1e15);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        self.history.iter().skip(skipped).map(|rates| whole(rates) as u64).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A server's word after so many seconds, with so many allowed and refused.
    pub(in crate::verb::top) fn snapshot(seconds: u64, allow: u64, deny: u64) -> Snapshot {
        let totals = json!({"allow": allow, "deny": deny, "shadow_deny": 0, "error": 0});
        let none = json!({"allow": 0, "deny": 0, "shadow_deny": 0, "error": 0});
        let value = json!({
            "at_us": 1_000_000_000 + seconds * 1_000_000, "uptime_us": seconds * 1_000_000,
            "version": "0.1.0", "phase": "serving",
            "store": {"name": "memory", "degraded": false, "errors": {"timeout": 0}, "overflowed": 0},
            "config": {"file": "waterclock.toml", "generation": 2, "needs_restart": [],
                "last_reload": {"success": true, "at_us": 1_000_000_000, "problems": []}},
            "connections": {"http": 2, "grpc": 0, "resp": 1},
            "totals": totals,
            "policies": [
                {"name": "demo", "totals": totals, "keys": 3, "reservations": 0, "limits": [{"name": "burst", "limit": 5}]},
                {"name": "login", "totals": none, "keys": 9, "reservations": 1,
                    "limits": [{"name": "minute", "limit": 3}, {"name": "gap", "limit": null}]},
            ],
            "refused": {"shown": "raw", "keys": [{"policy": "demo", "key": "al\u{1b}[31mice", "refusals": 12}]},
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn rates_are_differences() {
        let mut watched = Watched::default();
        watched.take(snapshot(10, 100, 0));
        assert_eq!(watched.now().unwrap().rates, Rates::default(), "nothing is known yet");
        watched.take(snapshot(12, 300, 5));
        let rates = watched.now().unwrap().rates;
        assert_eq!((rates.allow, rates.deny), (100.0, 2.5));
        assert_eq!(watched.history(9, |rates| rates.deny), [3]);
    }

    #[test]
    fn a_server_that_begins_anew() {
        let mut watched = Watched::default();
        watched.take(snapshot(100, 1_000, 50));
        let mut anew = snapshot(102, 10, 0);
        anew.uptime_us = 1_000_000;
        watched.take(anew);
        assert_eq!(watched.now().unwrap().rates.allow, 5.0);
    }

    #[test]
    fn a_reload_that_removes_a_policy_and_returns_it() {
        let (mut watched, whole) = (Watched::default(), |seconds| snapshot(seconds, 10_000, 50));
        watched.take(whole(10));
        let mut without = whole(11);
        (without.totals.allow, without.totals.deny) = (2, 0);
        without.policies.remove(0);
        watched.take(without);
        let now = watched.now().unwrap();
        assert_eq!((now.rates, now.by_policy.len()), (Rates::default(), 1), "nothing happened");
        watched.take(whole(12));
        assert_eq!(watched.now().unwrap().by_policy, [Rates::default(); 2], "it is new");
        watched.take(snapshot(13, 10_007, 50));
        assert_eq!(watched.now().unwrap().by_policy[0].allow, 7.0);
    }

    #[test]
    fn history_ends() {
        let mut watched = Watched::default();
        (0..1_000).for_each(|second| watched.take(snapshot(second, second * second, 0)));
        assert_eq!(watched.history.len(), REMEMBERED);
        assert_eq!(watched.history(2, |rates| rates.allow), [1_995, 1_997]);
    }
}

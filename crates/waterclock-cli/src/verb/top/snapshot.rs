//! What a server reports about itself, as `/v1/live` has it, and the rates between two snapshots.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use waterclock_config::Micros;
use waterclock_rehearse::terminal::{grouped, visible};

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Snapshot {
    /// Microseconds since the Unix epoch.
    pub(super) at_us: u64,
    pub(super) uptime_us: u64,
    pub(super) version: String,
    pub(super) phase: String,
    pub(super) store: StoreState,
    pub(super) config: Configuration,
    pub(super) connections: BTreeMap<String, i64>,
    pub(super) totals: Totals,
    pub(super) policies: Vec<PolicyTotals>,
    pub(super) refused: Refused,
}

impl Snapshot {
    /// Names and keys come from others: clients choose keys, and terminals obey escape sequences.
    pub(super) fn read(json: &str) -> serde_json::Result<Snapshot> {
        visibly(json)
    }

    /// What a policy has decided so far, if there is one of this name.
    pub(super) fn totals_of(&self, name: &str) -> Option<Totals> {
        self.policies.iter().find(|policy| policy.name == name).map(|policy| policy.totals)
    }

    /// How many keys a policy knows, which only a store in the server's own memory can tell.
    pub(super) fn keys_of(&self, policy: &PolicyTotals) -> String {
        if self.store.name == "memory" { grouped(policy.keys) } else { "–".to_owned() }
    }
}

/// Reads JSON of the server's with invisible characters escaped.
pub(super) fn visibly<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    T::deserialize(made_visible(serde_json::from_str(json)?))
}

/// The value with invisible characters escaped in every text.
fn made_visible(value: Value) -> Value {
    match value {
        Value::String(text) => visible(&text).into(),
        Value::Array(list) => list.into_iter().map(made_visible).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(name, value)| (visible(&name), made_visible(value))).collect()
        }
        other => other,
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct StoreState {
    pub(super) name: String,
    pub(super) degraded: bool,
    /// Microseconds since the Unix epoch.
    pub(super) degraded_since_us: Option<u64>,
    pub(super) nodes: Option<StoreNodes>,
    /// Failures so far, by kind.
    pub(super) errors: BTreeMap<String, u64>,
    /// Charges of keys that found no place of their own.
    pub(super) overflowed: u64,
}

/// How many servers share the store.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct StoreNodes {
    pub(super) configured: u64,
    pub(super) alive: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Configuration {
    pub(super) file: String,
    pub(super) generation: u64,
    pub(super) last_reload: LastReload,
    pub(super) needs_restart: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct LastReload {
    pub(super) success: bool,
    pub(super) at_us: u64,
    pub(super) problems: Vec<String>,
}

/// Decisions since the server started.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct Totals {
    pub(super) allowed: u64,
    pub(super) refused: u64,
    pub(super) shadow_refused: u64,
    pub(super) error: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct PolicyTotals {
    pub(super) name: String,
    pub(super) totals: Totals,
    pub(super) keys: u64,
    pub(super) reservations: u64,
    pub(super) limits: Vec<LimitSize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct LimitSize {
    pub(super) name: String,
    pub(super) limit: Option<u64>,
}

/// The keys that are refused most.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Refused {
    pub(super) shown: String,
    pub(super) keys: Vec<RefusedKey>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct RefusedKey {
    pub(super) policy: String,
    pub(super) key: String,
    /// The fields that form it, if the server knows and shows them.
    #[serde(default)]
    pub(super) fields: BTreeMap<String, String>,
    pub(super) refusals: u64,
    /// None from a server that does not know.
    pub(super) refusals_at_most: Option<u64>,
}

/// How many snapshots are kept for the picture.
const REMEMBERED: usize = 240;

/// Decisions per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) allowed: f64,
    pub(super) refused: f64,
    pub(super) shadow_refused: f64,
    pub(super) error: f64,
}

impl Rates {
    /// Between two counts of the same server; none for a count that fell.
    fn between(before: Totals, after: Totals, time: Duration) -> Rates {
        let per_second = |before: u64, after: u64| {
            let grown = after.saturating_sub(before);
            if time.is_zero() { 0.0 } else { grown as f64 / time.as_secs_f64() }
        };
        Rates {
            allowed: per_second(before.allowed, after.allowed),
            refused: per_second(before.refused, after.refused),
            shadow_refused: per_second(before.shadow_refused, after.shadow_refused),
            error: per_second(before.error, after.error),
        }
    }
}

/// The last snapshot, with rates since the one before.
#[derive(Clone, Debug)]
pub(super) struct Now {
    pub(super) snapshot: Snapshot,
    pub(super) rates: Rates,
    /// In the order of the snapshot's policies.
    pub(super) by_policy: Vec<Rates>,
}

/// The snapshots so far.
#[derive(Default)]
pub(super) struct Watched {
    now: Option<Now>,
    snapshots: usize,
    history: VecDeque<Rates>,
}

impl Watched {
    pub(super) fn take(&mut self, snapshot: Snapshot) {
        self.snapshots += 1;
        let before = self.now.as_ref().map(|now| &now.snapshot);
        let time = before.map_or(Duration::ZERO, |before| {
            Duration::from_micros(snapshot.at_us.saturating_sub(before.at_us))
        });
        // After a restart the server counts from zero. Only its uptime tells: a reload that removes policies lowers
        // counts, too.
        let before = before.filter(|before| snapshot.uptime_us >= before.uptime_us);
        let totals = before.map_or_else(Totals::default, |before| before.totals);
        let rates = Rates::between(totals, snapshot.totals, time);
        let of_policy = |policy: &PolicyTotals| {
            let was = match before {
                None => Some(Totals::default()),
                Some(before) => before.totals_of(&policy.name),
            };
            // When a new policy began to count is not known: it has no rate yet.
            was.map_or_else(Rates::default, |was| Rates::between(was, policy.totals, time))
        };
        let by_policy = snapshot.policies.iter().map(of_policy).collect();
        if self.snapshots > 1 {
            if self.history.len() == REMEMBERED {
                self.history.pop_front();
            }
            self.history.push_back(rates);
        }
        self.now = Some(Now { snapshot, rates, by_policy });
    }

    /// What the server remembers from before the first snapshot, oldest first.
    pub(super) fn remember(&mut self, before: Vec<Rates>) {
        let skipped = before.len().saturating_sub(REMEMBERED);
        self.history.extend(before.into_iter().skip(skipped));
    }

    pub(super) fn now(&self) -> Option<&Now> {
        self.now.as_ref()
    }

    pub(super) fn snapshots(&self) -> usize {
        self.snapshots
    }

    /// The latest values of one kind of rate, oldest first, rounded up.
    pub(super) fn history(&self, most: usize, of: impl Fn(&Rates) -> f64) -> Vec<u64> {
        let skipped = self.history.len().saturating_sub(most);
        self.history.iter().skip(skipped).map(|rates| whole(of(rates))).collect()
    }
}

/// A rate, rounded up: what is there is seen.
pub(super) fn whole(rate: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let whole = rate.ceil().clamp(0.0, 1e15) as u64;
    whole
}

/// A rate to one decimal, or to none where it is large.
pub(super) fn rate(per_second: f64) -> String {
    if per_second >= 1_000.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

/// Whole seconds, in the two largest units: `3 d 4 h`, `2 min 5 s`, `7 s`.
pub(super) fn span(us: u64) -> String {
    Micros(us / 1_000_000 * 1_000_000).rounded().in_words()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A snapshot after so many seconds, with so many allowed and refused.
    pub(in crate::verb::top) fn snapshot(seconds: u64, allow: u64, deny: u64) -> Snapshot {
        let totals = json!({"allowed": allow, "refused": deny, "shadow_refused": 0, "error": 0});
        let none = json!({"allowed": 0, "refused": 0, "shadow_refused": 0, "error": 0});
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
        Snapshot::read(&value.to_string()).unwrap()
    }

    #[test]
    fn rates_are_differences() {
        let mut watched = Watched::default();
        watched.take(snapshot(10, 100, 0));
        assert_eq!(watched.now().unwrap().rates, Rates::default(), "nothing is known yet");
        watched.take(snapshot(12, 300, 5));
        let rates = watched.now().unwrap().rates;
        assert_eq!((rates.allowed, rates.refused), (100.0, 2.5));
        assert_eq!(watched.history(9, |rates| rates.refused), [3]);
    }

    #[test]
    fn a_server_that_begins_anew() {
        let mut watched = Watched::default();
        watched.take(snapshot(100, 1_000, 50));
        let mut anew = snapshot(102, 10, 0);
        anew.uptime_us = 1_000_000;
        watched.take(anew);
        assert_eq!(watched.now().unwrap().rates.allowed, 5.0);
    }

    #[test]
    fn a_reload_that_removes_a_policy_and_returns_it() {
        let (mut watched, whole) = (Watched::default(), |seconds| snapshot(seconds, 10_000, 50));
        watched.take(whole(10));
        let mut without = whole(11);
        (without.totals.allowed, without.totals.refused) = (2, 0);
        without.policies.remove(0);
        watched.take(without);
        let now = watched.now().unwrap();
        assert_eq!((now.rates, now.by_policy.len()), (Rates::default(), 1), "nothing happened");
        watched.take(whole(12));
        assert_eq!(watched.now().unwrap().by_policy, [Rates::default(); 2], "it is new");
        watched.take(snapshot(13, 10_007, 50));
        assert_eq!(watched.now().unwrap().by_policy[0].allowed, 7.0);
    }

    #[test]
    fn history_ends() {
        let mut watched = Watched::default();
        (0..1_000).for_each(|second| watched.take(snapshot(second, second * second, 0)));
        assert_eq!(watched.history.len(), REMEMBERED);
        assert_eq!(watched.history(2, |rates| rates.allowed), [1_995, 1_997]);
    }

    #[test]
    fn spans_and_rates() {
        for (seconds, shown) in
            [(0, "0 s"), (59, "59 s"), (125, "2 min 5 s"), (3_600, "1 h"), (273_600, "3 d 4 h")]
        {
            assert_eq!(span(seconds * 1_000_000 + 999), shown);
        }
        assert_eq!(
            (rate(0.04), rate(999.96), rate(12_345.6)),
            ("0.0".into(), "1000.0".into(), "12346".into())
        );
    }
}

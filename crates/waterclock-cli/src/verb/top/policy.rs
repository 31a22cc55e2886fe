//! One policy, as its own view shows it: limits, history, latency and refused keys.

use std::collections::BTreeMap;

use serde::Deserialize;
use waterclock_config::Micros;
use waterclock_rehearse::terminal::grouped;

use super::snapshot::{Rates, Refused, RefusedKey, visibly};

/// How far back a picture goes, in seconds.
pub(super) const SECONDS: usize = 240;

/// What the server tells about one policy.
#[derive(Clone, Debug)]
pub(super) struct PolicyPage {
    pub(super) name: String,
    pub(super) limits: Vec<String>,
    pub(super) history: Told,
    pub(super) refused: Refused,
}

impl PolicyPage {
    /// From `/v1/policies/…`, `/v1/history` and `/v1/refused`.
    pub(super) fn read(name: &str, [policy, history, refused]: [&str; 3]) -> Option<PolicyPage> {
        let policy: PolicyLimits = visibly(policy).ok()?;
        Some(PolicyPage {
            name: name.to_owned(),
            limits: policy.limits.iter().map(limit_text).collect(),
            history: visibly(history).ok()?,
            refused: visibly(refused).ok()?,
        })
    }

    /// The share of refusals in what the history has, from 0 to 1.
    pub(super) fn refused_share(&self) -> Option<f64> {
        let Columns { allowed, refused, shadow_refused, .. } = self.history.decisions.as_ref()?;
        let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
        let all = sum(allowed) + sum(refused) + sum(shadow_refused);
        (all > 0.0).then(|| sum(refused) / all)
    }

    /// The slowest of the last minute by protocol: `http 50 % within 20 µs, 99 % within 50 µs`.
    pub(super) fn latency(&self) -> String {
        let slowest = |points: &[Option<f64>]| {
            let last = points.iter().rev().take(60).flatten();
            last.copied().reduce(f64::max)
        };
        let of = |(face, of): (&String, &Latency)| {
            let (p50, p99) = (slowest(&of.p50_us)?, slowest(&of.p99_us)?);
            Some(format!("{face} 50 % within {}, 99 % within {}", micros(p50), micros(p99)))
        };
        let faces: Vec<String> = self.history.latency.iter().filter_map(of).collect();
        if faces.is_empty() {
            "no decisions in the last minute".to_owned()
        } else {
            faces.join("; ")
        }
    }
}

fn micros(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us} µs"),
        us if us < 1e6 => format!("{} ms", us / 1e3),
        us => format!("{} s", us / 1e6),
    }
}

/// `/v1/history`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Told {
    decisions: Option<Columns>,
    latency: BTreeMap<String, Latency>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Columns {
    allowed: Vec<u64>,
    refused: Vec<u64>,
    shadow_refused: Vec<u64>,
    error: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Latency {
    p50_us: Vec<Option<f64>>,
    p99_us: Vec<Option<f64>>,
}

impl Told {
    /// Decisions in each second, oldest first.
    pub(super) fn rates(&self) -> Vec<Rates> {
        let Some(columns) = &self.decisions else { return Vec::new() };
        let at = |column: &[u64], second: usize| column.get(second).map_or(0.0, |n| *n as f64);
        let seconds = 0..columns.allowed.len();
        let rates = seconds.map(|second| Rates {
            allowed: at(&columns.allowed, second),
            refused: at(&columns.refused, second),
            shadow_refused: at(&columns.shadow_refused, second),
            error: at(&columns.error, second),
        });
        rates.collect()
    }
}

#[derive(Deserialize)]
struct PolicyLimits {
    limits: Vec<LimitNumbers>,
}

/// `/v1/policies`.
#[derive(Deserialize)]
struct Policies {
    policies: Vec<NamedLimits>,
}

#[derive(Deserialize)]
struct NamedLimits {
    name: String,
    limits: Vec<LimitNumbers>,
}

/// The limits of every policy in words, by its name, from `/v1/policies`.
pub(super) fn limits_in_words(policies: &str) -> Option<BTreeMap<String, String>> {
    let Policies { policies } = visibly(policies).ok()?;
    let words = |policy: NamedLimits| {
        let limits: Vec<String> = policy.limits.iter().map(limit_text).collect();
        (policy.name, limits.join("; "))
    };
    Some(policies.into_iter().map(words).collect())
}

#[derive(Deserialize)]
struct LimitNumbers {
    name: String,
    algorithm: String,
    limit: Option<u64>,
    per_us: Option<u64>,
    capacity: Option<u64>,
    drip: Option<u64>,
    every_us: Option<u64>,
    threshold: Option<serde_json::Value>,
    lease_us: Option<u64>,
    unit: Option<String>,
    #[serde(default)]
    shadow: bool,
}

/// As the dashboard writes it: `burst: 30/min, capacity 5`.
fn limit_text(limit: &LimitNumbers) -> String {
    let unit = limit.unit.as_ref().map_or_else(String::new, |unit| format!(" {unit}"));
    let capacity = limit.capacity.filter(|capacity| Some(*capacity) != limit.limit);
    let capacity =
        capacity.map_or_else(String::new, |most| format!(", capacity {}", grouped(most)));
    let numbers = match (limit.limit, &limit.threshold) {
        (_, Some(threshold)) => {
            let share = threshold.as_str().map_or_else(|| threshold.to_string(), str::to_owned);
            format!("{share} errors in {}", span(limit.per_us))
        }
        (Some(most), _) if limit.lease_us.is_some() => format!("{}{unit} at once", grouped(most)),
        (Some(most), _) => format!("{}{unit}/{}{capacity}", grouped(most), period(limit.per_us)),
        (None, _) => {
            let drip = grouped(limit.drip.unwrap_or(1));
            format!("{drip}{unit}/{}{capacity}", period(limit.every_us))
        }
    };
    let name =
        if limit.name == limit.algorithm { String::new() } else { format!("{}: ", limit.name) };
    format!("{name}{numbers}{}", if limit.shadow { " (shadow)" } else { "" })
}

fn span(us: Option<u64>) -> String {
    Micros(us.unwrap_or(0)).in_words()
}

/// One second is `s`; others have their number.
fn period(us: Option<u64>) -> String {
    let text = span(us);
    text.strip_prefix("1 ").filter(|unit| !unit.contains(' ')).map_or(text.clone(), str::to_owned)
}

/// How often a key was refused: `970` where that is exact, or else `≥ 970`.
pub(super) fn refusals(key: &RefusedKey) -> String {
    let least = grouped(key.refusals);
    if key.refusals_at_most.is_none_or(|most| most == key.refusals) {
        least
    } else {
        format!("≥ {least}")
    }
}

/// A key as its fields, `client_ip: 127.0.0.1  user: alice`; another one as itself.
pub(super) fn key_text(key: &RefusedKey) -> String {
    if key.fields.is_empty() {
        return key.key.clone();
    }
    let fields: Vec<String> =
        key.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    fields.join("  ")
}

/// The same for a narrow column: the fields' values only.
pub(super) fn short_key_text(key: &RefusedKey) -> String {
    if key.fields.is_empty() {
        return key.key.clone();
    }
    key.fields.values().map(String::as_str).collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in crate::verb::top) fn page() -> PolicyPage {
        let policy = json!({ "limits": [
            { "name": "burst", "algorithm": "gcra", "limit": 30, "per_us": 60_000_000, "capacity": 5 },
            { "name": "sliding-window", "algorithm": "sliding-window", "limit": 1_000, "per_us": 5_400_000_000_u64, "unit": "tokens" },
            { "name": "gap", "algorithm": "min-interval", "every_us": 1_000_000, "shadow": true },
            { "name": "jobs", "algorithm": "concurrency", "limit": 4, "lease_us": 1_000_000 },
        ] });
        let history = json!({
            "end_us": 1, "step_us": 1_000_000, "policy": "demo",
            "decisions": { "allowed": [1, 2, 3], "refused": [0, 0, 2], "shadow_refused": [0, 0, 0], "error": [0, 0, 0] },
            "latency": { "http": { "p50_us": [null, 2.5, 2.0], "p99_us": [null, 15.0, 1500.0] }, "resp": { "p50_us": [null], "p99_us": [null] } },
        });
        let refused = json!({ "shown": "raw", "since_us": 0, "keys": [
            { "policy": "demo", "key": "9:127.0.0.1,5:alice,", "fields": { "client_ip": "127.0.0.1", "user": "al\u{1b}ice" }, "refusals": 1_970, "refusals_at_most": 2_003 },
            { "policy": "demo", "key": "k", "refusals": 12, "refusals_at_most": 12 },
        ] });
        let texts = [policy, history, refused].map(|value| value.to_string());
        PolicyPage::read("demo", texts.each_ref().map(|text| &**text)).unwrap()
    }

    #[test]
    fn a_policy_in_words() {
        let page = page();
        let limits = [
            "burst: 30/min, capacity 5",
            "1,000 tokens/1 h 30 min",
            "gap: 1/s (shadow)",
            "jobs: 4 at once",
        ];
        assert_eq!(page.limits, limits);
        let told = json!({ "policies": [
            { "name": "a\u{1b}", "limits": [{ "name": "gcra", "algorithm": "gcra", "limit": 1_000, "per_us": 3_600_000_000_u64 }] },
            { "name": "b", "limits": [] },
        ] });
        let words = [(r"a\u{1b}", "1,000/h"), ("b", "")].map(|(n, l)| (n.to_owned(), l.to_owned()));
        assert_eq!(limits_in_words(&told.to_string()), Some(words.into()));
        assert_eq!(short_key_text(&page.refused.keys[0]), r"127.0.0.1 al\u{1b}ice");
        assert_eq!(page.refused_share(), Some(0.25));
        assert_eq!(page.latency(), "http 50 % within 2.5 µs, 99 % within 1.5 ms");
        let keys: Vec<_> =
            page.refused.keys.iter().map(|key| (refusals(key), key_text(key))).collect();
        let expected = [("≥ 1,970", r"client_ip: 127.0.0.1  user: al\u{1b}ice"), ("12", "k")];
        assert_eq!(keys, expected.map(|(times, key)| (times.to_owned(), key.to_owned())));
    }
}

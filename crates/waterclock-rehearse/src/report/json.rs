//! A report for programs.

use serde_json::{Map, Value, json};
use waterclock::Policy;
use waterclock_config::{LimitSpec, NormalisedLimit};

use super::keys::KeyRecord;
use super::smallest::Extent;
use super::{Report, TOP};

impl Report<'_> {
    pub fn json(&self) -> Value {
        let ledger = &self.ledger;
        let by_limit = |counts| by_limit(&self.spec.built, counts);
        fn numbers(found: &Option<LimitSpec>) -> Option<NormalisedLimit<'_>> {
            found.as_ref().map(NormalisedLimit::new)
        }
        let smallest: Vec<Value> = self
            .smallest
            .iter()
            .map(|found| {
                json!({ "limit": found.limit, "nobody": numbers(&found.nobody), "one_percent": numbers(&found.one_percent) })
            })
            .collect();
        json!({
            "source": self.source,
            "policy": self.spec.name,
            "events": ledger.events,
            "checks": ledger.checks,
            "allowed": ledger.allowed,
            "in_part": ledger.in_part,
            "refused": ledger.refused,
            "in_shadow": ledger.in_shadow,
            "from_us": ledger.span_us.map(|(from, _)| from),
            "until_us": ledger.span_us.map(|(_, until)| until),
            "refused_by": by_limit(&ledger.refused_by),
            "blocked": ledger.blocked,
            "refused_by_limits_of_keys": ledger.refused_by_own,
            "shadow_refused_by": by_limit(&ledger.shadow_refused_by),
            "keys": ledger.keys.number().count,
            "keys_refused": ledger.keys_refused().count,
            "keys_are_estimates": ledger.keys.has_forgotten(),
            "most_refused_keys": self.top(|record| record.refused),
            "keys_most_refused_in_shadow": self.top(|record| record.in_shadow),
            "busiest_keys": self.top(|record| record.checks),
            "timeline": ledger.timeline.json(),
            "smallest_limits": smallest,
            "smallest_limits_of_all_keys": self.extent == Extent::Whole,
            "remarks": self.remarks,
        })
    }

    fn top(&self, of: impl Fn(&KeyRecord) -> u64) -> Vec<Value> {
        let line = |(key, record): (&str, KeyRecord)| {
            let when = |t_us: u64| (record.refused > 0).then_some(t_us);
            json!({
                "key": key,
                "checks": record.checks,
                "refused": record.refused,
                "first_refused_us": when(record.first_refused_us),
                "last_refused_us": when(record.last_refused_us),
                "in_shadow": record.in_shadow,
                "longest_retry_after_us": record.longest.us().and_then(when),
            })
        };
        self.ledger.keys.top(TOP, of).into_iter().map(line).collect()
    }
}

/// Counts by the names of a policy's limits.
pub fn by_limit(policy: &Policy, counts: &[u64]) -> Map<String, Value> {
    let limits = policy.limits().iter().zip(counts);
    limits.map(|(limit, count)| (limit.name().to_owned(), json!(count))).collect()
}

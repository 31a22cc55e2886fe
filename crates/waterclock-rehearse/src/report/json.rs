//! A report for programs.

use serde_json::{Value, json};

use super::advice::{Advice, Curve, Extent, Percentile, Point, RULE, toml, words};
use super::advise::BEYOND_ANY;
use super::details::Detail;
use super::keys::{KeyRecord, hash_of};
use super::page::by_limit;
use super::{Report, TOP};

/// How many clients are described in full.
const TOP_CLIENTS: usize = 50;

impl Report<'_> {
    /// The report for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let ledger = &self.ledger;
        let by_limit = |counts| by_limit(self.policy.policy(), counts);
        let (clients, refused) = (ledger.keys.number(), ledger.keys_refused());
        let limits = self.policy.limits().iter();
        json!({
            "headline": self.headline(),
            "suggestion": self.suggestion(),
            "source": self.source,
            "policy": self.policy.name(),
            "limits": limits.map(|limit| json!({ "name": limit.name(), "words": words(limit), "shadow": limit.is_shadow() })).collect::<Vec<Value>>(),
            "events": ledger.events,
            "checks": ledger.checks,
            "allowed": ledger.allowed,
            "in_part": ledger.in_part,
            "refused": ledger.refused,
            "shadow_refused": ledger.in_shadow,
            "from_us": ledger.span_us.map(|(from, _)| from),
            "until_us": ledger.span_us.map(|(_, until)| until),
            "refused_by": by_limit(&ledger.refused_by),
            "blocked": ledger.blocked,
            "refused_by_limits_of_keys": ledger.refused_by_custom,
            "shadow_refused_by": by_limit(&ledger.shadow_refused_by),
            "clients": clients.count,
            "clients_refused": refused.count,
            "clients_are_estimates": clients.is_estimate,
            "keys": clients.count,
            "keys_refused": refused.count,
            "keys_are_estimates": clients.is_estimate,
            "most_refused_keys": self.top(|record| record.refused),
            "most_shadow_refused_keys": self.top(|record| record.in_shadow),
            "busiest_keys": self.top(|record| record.checks),
            "top_clients": self.top_clients(),
            "timeline": self.timeline(),
            "advice": self.advice.iter().map(|advice| self.advised_json(advice)).collect::<Vec<Value>>(),
            "curves": self.advice.iter().map(curve).collect::<Vec<Value>>(),
            "toml": self.toml(),
            "advice_is_of_all_clients": self.extent == Extent::Whole,
            "remarks": self.notes,
        })
    }

    fn top(&self, of: impl Fn(&KeyRecord) -> u64) -> Vec<Value> {
        self.ledger
            .keys
            .top(TOP, of)
            .into_iter()
            .map(|(key, record)| counts(key, &record))
            .collect()
    }

    /// The most refused first, then the busiest.
    fn top_clients(&self) -> Vec<Value> {
        let rank = |record: &KeyRecord| Some((record.refused, record.in_shadow, record.checks));
        let top = self.ledger.keys.top_by(TOP_CLIENTS, rank);
        let client = |(key, record): (&str, KeyRecord)| {
            let mut client = counts(key, &record);
            client["first_us"] = json!(record.first_us);
            client["last_us"] = json!(record.last_us);
            client["kind"] = json!(record.kind().map(super::seen::Kind::name));
            let empty = Detail::default();
            let detail = self.ledger.details.of(hash_of(key)).unwrap_or(&empty);
            let bins = detail.bins.clone().places(&self.ledger.timeline);
            let bins = bins.map(|(place, [offered, refused])| json!([place, offered, refused]));
            client["bins"] = bins.collect();
            let mut refused_by = detail.refused_by.clone();
            refused_by.resize(self.policy.limits().len(), 0);
            client["refused_by"] = json!(refused_by);
            client["paths"] = json!(detail.paths.top());
            client["agents"] = json!(detail.agents.top());
            client["distinct_paths"] = json!(detail.different_paths.estimate());
            client["distinct_agents"] = json!(detail.different_agents.estimate());
            client
        };
        top.into_iter().map(client).collect()
    }

    /// The timeline, with refusals by limit in the order of the policy.
    fn timeline(&self) -> Value {
        let timeline = &self.ledger.timeline;
        let limits = self.ledger.bins_by.len();
        let mut by = vec![[vec![0; limits], vec![0; limits]]; timeline.len()];
        for (limit, bins) in self.ledger.bins_by.iter().enumerate() {
            for (place, counts) in bins.clone().places(timeline) {
                let Some(bin) = by.get_mut(place) else { continue };
                bin.iter_mut().zip(counts).for_each(|(by, count)| by[limit] = count);
            }
        }
        let mut json = timeline.json();
        let bins = json["bins"].as_array_mut().into_iter().flatten();
        for (bin, [refused, shadow_refused]) in bins.zip(by) {
            bin["refused_by"] = json!(refused);
            bin["shadow_refused_by"] = json!(shadow_refused);
        }
        json
    }

    fn advised_json(&self, advice: &Advice) -> Value {
        let percentile = |found: &Percentile| {
            let limit = found.limit.as_ref().map(|(_, limit)| limit);
            json!({
                "clients_percent": found.percent,
                "limit": found.number(),
                "words": advice.words(limit),
                "toml": limit.map(toml),
            })
        };
        let largest = advice.largest.as_ref().map(|largest| {
            json!({
                "key": self.key_of(largest.key),
                "needs": largest.limit.as_ref().map_or_else(|| BEYOND_ANY.to_owned(), words),
                "kind": largest.kind.map(super::seen::Kind::name),
            })
        });
        json!({
            "limit": advice.limit,
            "field": advice.field,
            "outliers": { "clients": advice.outliers, "many_agents": advice.many_agents, "rule": RULE, "largest": largest },
            "percentiles": advice.percentiles.iter().map(percentile).collect::<Vec<Value>>(),
            "sentence": advice.sentence(),
        })
    }
}

/// The counts of a client.
fn counts(key: &str, record: &KeyRecord) -> Value {
    let when = |t_us: u64| (record.refused > 0).then_some(t_us);
    json!({
        "key": key,
        "checks": record.checks,
        "refused": record.refused,
        "first_refused_us": when(record.first_refused_us),
        "last_refused_us": when(record.last_refused_us),
        "shadow_refused": record.in_shadow,
        "longest_retry_after_us": record.longest.us().and_then(when),
    })
}

fn curve(advice: &Advice) -> Value {
    let point = |point: &Point| {
        json!({
            "limit": point.number,
            "words": words(&point.limit),
            "toml": toml(&point.limit),
            "clients_refused": point.clients_refused,
            "checks_refused": point.checks_refused,
            "units_refused": point.units_refused,
            "kinds": {
                "one_agent": point.kinds.one_agent,
                "many_agents": point.kinds.many_agents,
                "unknown": point.kinds.unknown,
            },
        })
    };
    let Curve { current, clients, checks, units, points } = &advice.curve;
    json!({
        "limit": advice.limit,
        "field": advice.field,
        "current": current,
        "start": advice.start_place(),
        "clients": clients,
        "checks": checks,
        "units": units,
        "points": points.iter().map(point).collect::<Vec<Value>>(),
    })
}

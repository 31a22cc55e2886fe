//! A report as a picture, as a page, and for programs.

use anstyle::Style;
use comfy_table::{Cell, Color};
use serde_json::{Map, Value, json};
use waterclock::{Limit, Policy};
use waterclock_config::LimitFields;
use waterclock_config::english::describe;

use super::grouped;
use super::html::{Beside, page_with};
use super::keys::KeyRecord;
use super::smallest::Extent;
use super::units::{Align, Table, share};
use super::{Report, TOP};
use crate::picture::{Picture, Row, Times};
use crate::terminal::{BAD, GOOD, WARN};

impl Report<'_> {
    /// The picture of checks over time, with refusals.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let ledger = &self.ledger;
        let span_us = ledger.timeline.span_us();
        let mut says = format!(
            "{} of {} allowed",
            grouped(ledger.checks - ledger.refused),
            grouped(ledger.checks)
        );
        if ledger.refused > 0 {
            let (refused, keys) = (share(ledger.refused, ledger.checks), ledger.keys_refused());
            says.push_str(&format!("; {refused} refused, of {keys}"));
        }
        if ledger.in_shadow > 0 {
            says.push_str(&format!("; {} shadow-refused", share(ledger.in_shadow, ledger.checks)));
        }
        says.push('.');
        Picture {
            title: format!("{}, under policy {}", self.source, self.policy.name()),
            times: Times::of(span_us.1),
            span_us,
            level_of: None,
            rows: vec![Row {
                name: self.policy.name().to_owned(),
                says,
                timeline: ledger.timeline.clone(),
                in_shadow: None,
                level: Vec::new(),
                refusals: ledger.some_refusals(),
            }],
        }
    }

    /// The report as a page that needs no other file.
    #[must_use]
    pub fn page(&self) -> String {
        let is_based_on_less = self.has_news() && !self.extent().is_empty();
        let beside = Beside {
            policy: describe(self.policy),
            smallest: self.smallest(),
            extent: if is_based_on_less { self.extent().to_owned() } else { String::new() },
        };
        page_with(&self.json(), &beside)
    }

    /// How many checks ended how.
    pub(super) fn totals(&self) -> Vec<(Style, &'static str, u64)> {
        let ledger = &self.ledger;
        let mut totals = vec![(GOOD, "allowed", ledger.allowed), (BAD, "refused", ledger.refused)];
        if ledger.in_part > 0 {
            totals.insert(1, (GOOD, "in part", ledger.in_part));
        }
        if ledger.in_shadow > 0 {
            totals.push((WARN, "shadow-refused", ledger.in_shadow));
        }
        totals
    }

    /// The keys with the most of something, unless none has any.
    pub(super) fn keys(&self, of: impl Fn(&KeyRecord) -> u64) -> Option<Table> {
        let top = self.ledger.keys.top(TOP, of);
        let (_, until_us) = self.ledger.span_us.filter(|_| !top.is_empty())?;
        let times = Times::of(until_us);
        let row = |(key, record): (&str, KeyRecord)| {
            let when = |text: String| if record.refused > 0 { text } else { "–".to_owned() };
            [
                Cell::new(grouped(record.refused)).fg(Color::Red),
                Cell::new(grouped(record.in_shadow)).fg(Color::Yellow),
                Cell::new(format!("of {}", grouped(record.checks))),
                Cell::new(when(times.show(record.first_refused_us))),
                Cell::new(when(times.show(record.last_refused_us))),
                Cell::new(when(record.longest.to_string())),
                Cell::new(format!("{key:?}")),
            ]
        };
        use Align::{Left, Right};
        let head = [
            ("refused", Right),
            ("shadow-refused", Right),
            ("checks", Right),
            ("first", Left),
            ("last", Left),
            ("longest wait", Right),
            ("key", Left),
        ];
        Some(Table::new(head, top.into_iter().map(row)))
    }

    /// The smallest sufficient limits, if a check was refused.
    pub(super) fn smallest(&self) -> Option<Table> {
        let rows = self.smallest.iter().map(|found| {
            let words = |limit: &Option<Limit>| Cell::new(found.words(limit.as_ref()));
            [Cell::new(&found.limit), words(&found.none), words(&found.one_percent)]
        });
        let head = ["each alone", "no check", "at most 1 % of checks"];
        let is_shown = self.has_news() && !self.smallest.is_empty();
        is_shown.then(|| Table::new(head.map(|name| (name, Align::Left)), rows))
    }
}

impl Report<'_> {
    /// The report for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let ledger = &self.ledger;
        let by_limit = |counts| by_limit(self.policy.policy(), counts);
        fn numbers(found: &Option<Limit>) -> Option<LimitFields> {
            found.as_ref().map(LimitFields::from)
        }
        let smallest: Vec<Value> = self
            .smallest
            .iter()
            .map(|found| {
                json!({ "limit": found.limit, "none": numbers(&found.none), "one_percent": numbers(&found.one_percent) })
            })
            .collect();
        json!({
            "source": self.source,
            "policy": self.policy.name(),
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
            "keys": ledger.keys.number().count,
            "keys_refused": ledger.keys_refused().count,
            "keys_are_estimates": ledger.keys.has_evicted(),
            "most_refused_keys": self.top(|record| record.refused),
            "most_shadow_refused_keys": self.top(|record| record.in_shadow),
            "busiest_keys": self.top(|record| record.checks),
            "timeline": ledger.timeline.json(),
            "smallest_limits": smallest,
            "smallest_limits_of_all_keys": self.extent == Extent::Whole,
            "remarks": self.notes,
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
                "shadow_refused": record.in_shadow,
                "longest_retry_after_us": record.longest.us().and_then(when),
            })
        };
        self.ledger.keys.top(TOP, of).into_iter().map(line).collect()
    }
}

/// Counts by the names of a policy's limits.
pub(crate) fn by_limit(policy: &Policy, counts: &[u64]) -> Map<String, Value> {
    let limits = policy.limits().iter().zip(counts);
    limits.map(|(limit, count)| (limit.name().to_owned(), json!(count))).collect()
}

//! A report as a picture, as a page, and for programs.

use serde_json::{Map, Value, json};
use waterclock::{Limit, Policy};
use waterclock_config::english::describe;
use waterclock_config::{LimitFields, Micros};

use super::keys::KeyRecord;
use super::smallest::Extent;
use super::units::{grouped, share};
use super::{Report, TOP};
use crate::picture::{Page, Picture, Row, Times};

impl Report<'_> {
    /// The picture of checks over time, with refusals.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let ledger = &self.ledger;
        let span_us = ledger.timeline.span_us();
        let mut notes = vec![format!(
            "{} of {} allowed",
            grouped(ledger.checks - ledger.refused),
            grouped(ledger.checks)
        )];
        if ledger.refused > 0 {
            let (refused, keys) = (share(ledger.refused, ledger.checks), ledger.keys_refused());
            notes.push(format!("{refused} refused, of {keys}"));
        }
        let drawn = ledger.some_refusals().len() as u64;
        if ledger.in_shadow > 0 {
            notes.push(format!("{} shadow-refused", share(ledger.in_shadow, ledger.checks)));
        }
        if drawn < ledger.refused {
            notes.push(format!(
                "{} of {} refusals are drawn",
                grouped(drawn),
                grouped(ledger.refused)
            ));
        }
        notes.push(format!("bars of {}", Micros(ledger.timeline.width_us()).in_words()));
        Picture {
            title: format!("{}, under policy {}", self.source, self.policy.name()),
            times: Times::of(span_us.1),
            span_us,
            level_of: None,
            rows: vec![Row {
                name: self.policy.name().to_owned(),
                notes,
                timeline: ledger.timeline.clone(),
                level: Vec::new(),
                refusals: ledger.some_refusals(),
            }],
        }
    }

    /// The report as a page that needs no other file.
    #[must_use]
    pub fn page(&self) -> String {
        let ledger = &self.ledger;
        let lead = match ledger.span_us {
            Some((from_us, until_us)) => {
                let times = Times::of(until_us);
                format!(
                    "{} checks from {} to {}.",
                    grouped(ledger.checks),
                    times.show(from_us),
                    times.show(until_us)
                )
            }
            None => "There was nothing to check.".to_owned(),
        };
        let mut page =
            Page::new(&format!("{} under policy {}", self.source, self.policy.name()), &lead);
        page.picture(&self.picture().svg());
        page.section("What would have happened");
        let line = |word: &str, count: u64| {
            vec![word.to_owned(), grouped(count), share(count, ledger.checks)]
        };
        let mut totals = vec![line("allowed", ledger.allowed), line("refused", ledger.refused)];
        if ledger.in_part > 0 {
            totals.insert(1, line("in part", ledger.in_part));
        }
        if ledger.in_shadow > 0 {
            totals.push(line("shadow-refused", ledger.in_shadow));
        }
        if ledger.blocked > 0 {
            totals.push(line("of the refused: blocked keys", ledger.blocked));
        }
        if ledger.refused_by_custom > 0 {
            totals.push(line(
                "of the refused: custom limits of single keys",
                ledger.refused_by_custom,
            ));
        }
        page.table(&["", "checks", "share"], totals);
        self.limits(&mut page, "Refused by limit", &ledger.refused_by);
        self.limits(&mut page, "Shadow-refused by limit", &ledger.shadow_refused_by);
        self.keys(&mut page, "Most refused keys", |record| record.refused);
        self.keys(&mut page, "Most shadow-refused keys", |record| record.in_shadow);
        self.keys(&mut page, "Busiest keys", |record| record.checks);
        self.smallest(&mut page);
        page.section("The policy");
        page.verbatim(&describe(self.policy));
        if !self.notes.is_empty() {
            page.section("Notes about the traffic");
            self.notes.iter().for_each(|note| page.paragraph(note));
        }
        page.finish()
    }

    fn limits(&self, page: &mut Page, title: &str, counts: &[u64]) {
        if counts.iter().all(|count| *count == 0) {
            return;
        }
        page.section(title);
        let limits = self.policy.limits().iter().zip(counts);
        let row = |(limit, count): (&waterclock::Limit, &u64)| {
            vec![limit.name().to_owned(), grouped(*count), share(*count, self.ledger.checks)]
        };
        page.table(&["limit", "refused", "share of checks"], limits.map(row));
    }

    fn keys(&self, page: &mut Page, title: &str, of: impl Fn(&KeyRecord) -> u64) {
        let top = self.ledger.keys.top(TOP, of);
        let Some((_, until_us)) = self.ledger.span_us.filter(|_| !top.is_empty()) else { return };
        let times = Times::of(until_us);
        page.section(title);
        let row = |(key, record): (&str, KeyRecord)| {
            let only_if_refused =
                |words: String| if record.refused > 0 { words } else { "–".to_owned() };
            vec![
                shown(key),
                grouped(record.checks),
                grouped(record.refused),
                grouped(record.in_shadow),
                share(record.refused, record.checks),
                only_if_refused(times.show(record.first_refused_us)),
                only_if_refused(times.show(record.last_refused_us)),
                only_if_refused(record.longest.to_string()),
            ]
        };
        let head = [
            "key",
            "checks",
            "refused",
            "shadow-refused",
            "share",
            "first refused",
            "last refused",
            "longest wait",
        ];
        page.table(&head, top.into_iter().map(row));
    }

    fn smallest(&self, page: &mut Page) {
        if self.smallest.is_empty() || !self.has_news() {
            return;
        }
        page.section("The smallest limits that would have refused");
        let rows = self.smallest.iter().map(|found| {
            let words = |limit: &Option<_>| found.words(limit.as_ref());
            vec![found.limit.clone(), words(&found.none), words(&found.one_percent)]
        });
        page.table(&["each alone", "no check", "at most 1 % of checks"], rows);
        if !self.extent().is_empty() {
            page.paragraph(&format!("Found{}.", self.extent()));
        }
    }
}

/// A key as a cell shows it.
pub(crate) fn shown(key: &str) -> String {
    if key.is_empty() { "(empty)".to_owned() } else { key.to_owned() }
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
                json!({ "limit": found.limit, "nobody": numbers(&found.none), "one_percent": numbers(&found.one_percent) })
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
            "in_shadow": ledger.in_shadow,
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
            "keys_most_refused_in_shadow": self.top(|record| record.in_shadow),
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
                "in_shadow": record.in_shadow,
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

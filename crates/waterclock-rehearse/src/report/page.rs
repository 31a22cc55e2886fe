//! A report as a picture, and as a page.

use super::keys::KeyRecord;
use super::when::share;
use super::{Report, TOP};
use crate::picture::{Page, Picture, Row, Times, at_a_glance};
use waterclock_config::english::describe;

impl Report<'_> {
    pub fn picture(&self) -> Picture {
        let ledger = &self.ledger;
        let span_us = ledger.timeline.span_us();
        let mut notes =
            vec![format!("{} of {} admitted", ledger.checks - ledger.refused, ledger.checks)];
        if ledger.refused > 0 {
            let (refused, keys) = (share(ledger.refused, ledger.checks), ledger.keys_refused());
            notes.push(format!("{refused} refused, of {keys}"));
        }
        let drawn = ledger.some_refusals().len() as u64;
        if ledger.in_shadow > 0 {
            notes.push(format!("{} in shadow", share(ledger.in_shadow, ledger.checks)));
        }
        if drawn < ledger.refused {
            notes.push(format!("{drawn} of {} refusals are drawn", ledger.refused));
        }
        notes.push(format!("bars of {}", at_a_glance(ledger.timeline.width_us())));
        Picture {
            title: format!("{}, under policy {}", self.source, self.spec.name),
            times: Times::of(span_us.1),
            span_us,
            level_of: None,
            rows: vec![Row {
                name: self.spec.name.clone(),
                notes,
                timeline: ledger.timeline.clone(),
                level: Vec::new(),
                refusals: ledger.some_refusals(),
            }],
        }
    }

    pub fn page(&self) -> String {
        let ledger = &self.ledger;
        let lead = match ledger.span_us {
            Some((from_us, until_us)) => {
                let times = Times::of(until_us);
                format!(
                    "{} checks from {} to {}.",
                    ledger.checks,
                    times.show(from_us),
                    times.show(until_us)
                )
            }
            None => "There was nothing to check.".to_owned(),
        };
        let mut page =
            Page::new(&format!("{} under policy {}", self.source, self.spec.name), &lead);
        page.picture(&self.picture().svg());
        page.section("What would have happened");
        let line = |word: &str, count: u64| {
            vec![word.to_owned(), count.to_string(), share(count, ledger.checks)]
        };
        let mut totals = vec![line("allowed", ledger.allowed), line("refused", ledger.refused)];
        if ledger.in_part > 0 {
            totals.insert(1, line("in part", ledger.in_part));
        }
        if ledger.in_shadow > 0 {
            totals.push(line("would have been refused in shadow", ledger.in_shadow));
        }
        if ledger.blocked > 0 {
            totals.push(line("of the refused, blocked keys", ledger.blocked));
        }
        if ledger.refused_by_own > 0 {
            totals.push(line("of the refused, by limits of single keys", ledger.refused_by_own));
        }
        page.table(&["", "checks", "share"], totals);
        self.limits(&mut page, "Refused by limit", &ledger.refused_by);
        self.limits(
            &mut page,
            "Would have been refused in shadow by limit",
            &ledger.shadow_refused_by,
        );
        self.keys(&mut page, "Most refused keys", |record| record.refused);
        self.keys(&mut page, "Keys most refused in shadow", |record| record.in_shadow);
        self.keys(&mut page, "Busiest keys", |record| record.checks);
        self.smallest(&mut page);
        page.section("The policy");
        page.verbatim(&describe(self.spec));
        if !self.remarks.is_empty() {
            page.section("About what was read");
            self.remarks.iter().for_each(|remark| page.paragraph(remark));
        }
        page.finish()
    }

    fn limits(&self, page: &mut Page, title: &str, counts: &[u64]) {
        if counts.iter().all(|count| *count == 0) {
            return;
        }
        page.section(title);
        let limits = self.spec.built.limits().iter().zip(counts);
        let row = |(limit, count): (&waterclock::Limit, &u64)| {
            vec![limit.name().to_owned(), count.to_string(), share(*count, self.ledger.checks)]
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
                record.checks.to_string(),
                record.refused.to_string(),
                record.in_shadow.to_string(),
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
            "in shadow",
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
            vec![found.limit.clone(), words(&found.nobody), words(&found.one_percent)]
        });
        page.table(&["each alone", "nobody", "at most 1 % of checks"], rows);
        if !self.extent().is_empty() {
            page.paragraph(&format!("Found{}.", self.extent()));
        }
    }
}

/// A key as a cell shows it.
pub fn shown(key: &str) -> String {
    if key.is_empty() { "(empty)".to_owned() } else { key.to_owned() }
}

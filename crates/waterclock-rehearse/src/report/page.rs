//! A report as a picture and as a page.

use anstyle::Style;
use comfy_table::{Cell, Color};
use serde_json::{Map, Value, json};
use waterclock::{Limit, Policy};
use waterclock_config::english::describe;

use super::advice::Percentile;
use super::grouped;
use super::keys::KeyRecord;
use super::units::{Align, Table, share};
use super::{Report, TOP};
use crate::picture::{Page, Picture, Row, Times};
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
        let listed = [
            (BAD, "of the refused: blocked keys", ledger.blocked),
            (BAD, "of the refused: custom limits of single keys", ledger.refused_by_custom),
        ];
        let listed = listed.into_iter().filter(|(.., count)| *count > 0);
        let row = |(_, word, count)| {
            [Cell::new(word), Cell::new(grouped(count)), Cell::new(share(count, ledger.checks))]
        };
        let head = [("", Align::Left), ("checks", Align::Right), ("share", Align::Right)];
        page.table(&Table::new(head, self.totals().into_iter().chain(listed).map(row)));
        self.limits(&mut page, "Refused by limit", &ledger.refused_by);
        self.limits(&mut page, "Shadow-refused by limit", &ledger.shadow_refused_by);
        let keys = [
            ("Most refused keys", self.keys(|record| record.refused)),
            ("Most shadow-refused keys", self.keys(|record| record.in_shadow)),
            ("Busiest keys", self.keys(|record| record.checks)),
            ("What clients never exceed", self.advised()),
        ];
        for (title, table) in keys {
            if let Some(table) = table {
                page.section(title);
                page.table(&table);
            }
        }
        if !self.advice.is_empty() && !self.extent().is_empty() {
            page.paragraph(&format!("Found{}.", self.extent()));
        }
        page.section("The policy");
        page.verbatim(&describe(self.policy));
        if !self.notes.is_empty() {
            page.section("Notes about the traffic");
            self.notes.iter().for_each(|note| page.paragraph(&note.message));
        }
        page.finish()
    }

    fn limits(&self, page: &mut Page, title: &str, counts: &[u64]) {
        if counts.iter().all(|count| *count == 0) {
            return;
        }
        page.section(title);
        let limits = self.policy.limits().iter().zip(counts);
        let row = |(limit, count): (&Limit, &u64)| {
            let share = share(*count, self.ledger.checks);
            [Cell::new(limit.name()), Cell::new(grouped(*count)), Cell::new(share)]
        };
        let head =
            [("limit", Align::Left), ("refused", Align::Right), ("share of checks", Align::Right)];
        page.table(&Table::new(head, limits.map(row)));
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

    /// What clients need of each limit.
    pub(super) fn advised(&self) -> Option<Table> {
        let rows = self.advice.iter().map(|advice| {
            let cell = |found: &Percentile| {
                Cell::new(advice.words(found.limit.as_ref().map(|(_, limit)| limit)))
            };
            let mut cells = vec![Cell::new(&advice.limit)];
            cells.extend(advice.percentiles.iter().map(cell));
            cells
        });
        let head = ["each alone", "99 % of clients", "99.9 % of clients", "all but outliers"];
        let head = head.map(|name| (name.to_owned(), Align::Left));
        let table = Table { head: head.into(), rows: rows.collect() };
        (!table.rows.is_empty()).then_some(table)
    }
}

/// Counts by the names of a policy's limits.
pub(crate) fn by_limit(policy: &Policy, counts: &[u64]) -> Map<String, Value> {
    let limits = policy.limits().iter().zip(counts);
    limits.map(|(limit, count)| (limit.name().to_owned(), json!(count))).collect()
}

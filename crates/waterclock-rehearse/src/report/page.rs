//! A report as a picture and as a page.

use anstyle::Style;
use comfy_table::{Cell, Color};
use serde_json::{Map, Value, json};
use waterclock::Policy;
use waterclock_config::english::describe;

use super::grouped;
use super::html::page_with;
use super::keys::KeyRecord;
use super::units::{Align, Table, share};
use super::{Report, TOP};
use crate::picture::{Picture, Row, Times};
use crate::terminal::{BAD, GOOD, WARN};

/// As many bars as can be told apart in a picture.
pub(super) const PICTURE_BINS: usize = 200;

impl Report<'_> {
    /// The picture of checks over time, with refusals.
    #[must_use]
    pub fn picture(&self) -> Picture {
        let ledger = &self.ledger;
        let timeline = ledger.timeline.merged(PICTURE_BINS);
        let span_us = timeline.span_us();
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
                timeline,
                in_shadow: None,
                level: Vec::new(),
                refusals: ledger.some_refusals(),
            }],
        }
    }

    /// The report as a page that needs no other file.
    #[must_use]
    pub fn page(&self) -> String {
        page_with(&self.json(), &describe(self.policy), self.extent())
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
}

/// Counts by the names of a policy's limits.
pub(crate) fn by_limit(policy: &Policy, counts: &[u64]) -> Map<String, Value> {
    let limits = policy.limits().iter().zip(counts);
    limits.map(|(limit, count)| (limit.name().to_owned(), json!(count))).collect()
}

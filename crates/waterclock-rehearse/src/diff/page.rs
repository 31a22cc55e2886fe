//! A comparison as a page.

use serde_json::Value;

use super::{Comparison, PolicyChange, json};
use crate::page::{Column, DIFF_SCRIPT, Page, Part};
use crate::picture::Times;
use crate::report::{KeyCount, counted, grouped, list, number, over_time, share, words};

impl Comparison {
    /// A page with both sides over time and a reason for every change, which needs no other file.
    #[must_use]
    pub fn page(&self, changes: &[PolicyChange]) -> String {
        let json = json(changes, Some(self));
        let trace = &json["trace"];
        let lead = [
            Part::Key(&self.source),
            Part::Words(format!(
                ": {} checks, under the old policy {} and under the new one.",
                grouped(self.was.checks),
                self.new.name()
            )),
        ];
        let mut page = Page::new("Two policies, the same traffic", &self.headline(), &lead);
        let times = Times::of(self.was.timeline.span_us().1);
        if self.was.checks > 0 {
            self.totals(&mut page);
            page.section("Over time");
            page.drawn("id=\"timeline\"");
            page.fold_numbers();
            table(&mut page, trace, times);
            page.end_fold();
        }
        why(&mut page, trace);
        keys(&mut page, trace);
        page.section("What changes in the files");
        if changes.is_empty() {
            page.paragraph("No policy changes.");
        }
        for change in changes {
            page.heading(&format!("Policy {}: {}", change.policy, change.kind()));
            page.changed_lines(&change.removed, &change.added);
        }
        if !self.notes.is_empty() {
            page.section("Notes about the traffic");
            self.notes.iter().for_each(|note| page.paragraph(&note.message));
        }
        page.script(DIFF_SCRIPT, &json, times);
        page.finish()
    }

    fn totals(&self, page: &mut Page) {
        let (checks, changes) = (self.was.checks, &self.changes);
        let of_checks = |count: u64| format!("{} of checks", share(count, checks));
        let (refused, allowed) = (changes.all.newly_refused, changes.all.newly_allowed);
        let of_keys = |keys: KeyCount| {
            let about = if keys.is_estimate { "about " } else { "" };
            format!("of {about}{}", counted(keys.count, "client"))
        };
        page.section("What changes");
        page.tiles(&[
            ("", "Refused before", grouped(self.was.refused), of_checks(self.was.refused)),
            ("", "Refused now", grouped(self.is.refused), of_checks(self.is.refused)),
            ("bad", "Newly refused", grouped(refused), of_keys(changes.keys_refused())),
            ("good", "Newly allowed", grouped(allowed), of_keys(changes.keys_allowed())),
        ]);
    }
}

/// For readers who cannot see the picture.
fn table(page: &mut Page, trace: &Value, times: Times) {
    let bins: Vec<&Value> = list(&trace["timeline"], "bins").collect();
    let fields = ["offered", "old_refused", "new_refused", "newly_refused", "newly_allowed"];
    let names =
        ["from", "checks", "refused before", "refused now", "newly refused", "newly allowed"];
    over_time(page, &bins, times, &names.map(Column::number), |sum| {
        fields.map(|field| Part::Number(sum(field))).into()
    });
}

/// How many checks each reason explains.
fn why(page: &mut Page, trace: &Value) {
    if list(trace, "reasons").next().is_none() {
        return;
    }
    page.section("Why");
    let columns = [Column::text("reason"), Column::number("checks")];
    let rows = list(trace, "reasons").map(|reason| {
        let is_refused = reason["change"] == "newly_refused";
        let class = if is_refused { "newly-refused" } else { "newly-allowed" };
        vec![
            Part::Swatch(class.to_owned(), words(reason, "sentence"), None),
            Part::Number(number(reason, "checks")),
        ]
    });
    page.rows("", &columns, rows);
}

fn keys(page: &mut Page, trace: &Value) {
    if list(trace, "most_changed_keys").next().is_none() {
        return;
    }
    page.section("Clients that change most");
    let columns = [
        Column::text("client"),
        Column::roomy("newly refused"),
        Column::roomy("newly allowed"),
        Column::roomy("of checks"),
        Column::text("why"),
    ];
    let rows = list(trace, "most_changed_keys").map(|key| {
        let reason = |reason: &Value| {
            format!("{}: {}", grouped(number(reason, "checks")), words(reason, "sentence"))
        };
        vec![
            Part::Key(words(key, "key")),
            Part::Number(number(key, "newly_refused")),
            Part::Number(number(key, "newly_allowed")),
            Part::Number(number(key, "checks")),
            Part::Lines(list(key, "reasons").map(reason).collect()),
        ]
    });
    page.rows("", &columns, rows);
}

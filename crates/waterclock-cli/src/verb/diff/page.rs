//! Differences as a page, and for programs.

use serde_json::{Value, json};

use super::changes::{Change, Side};
use super::{Rewording, Tried};
use crate::picture::{Page, Picture, Row, Times};
use crate::report::{TOP, by_limit, share, shown};

impl Tried {
    pub(super) fn page(&self, rewordings: &[Rewording]) -> String {
        let lead = format!(
            "{} checks of {}, under the old policy and under the new one.",
            self.was.checks, self.source
        );
        let mut page = Page::new(&format!("What changes with policy {}", self.new.name), &lead);
        page.picture(&self.picture().svg());
        page.section("In numbers");
        let checks = self.was.checks;
        let line = |word: &str, was: u64, is: u64| {
            let change = i128::from(is) - i128::from(was);
            vec![
                word.to_owned(),
                was.to_string(),
                share(was, checks),
                is.to_string(),
                share(is, checks),
                format!("{change:+}"),
            ]
        };
        let (was, is) = (&self.was, &self.is);
        page.table(
            &["", "old", "share", "new", "share", "change"],
            [
                line("admitted", was.admitted(), is.admitted()),
                line("refused", was.refused, is.refused),
            ],
        );
        let all = &self.changes.all;
        page.paragraph(&format!(
            "{} checks are newly refused and {} newly admitted.",
            all.newly_refused, all.newly_admitted
        ));
        let top = self.changes.keys.top(TOP, Change::all);
        if !top.is_empty() {
            page.section("For whom most changes");
            let row = |(key, change): (&str, Change)| {
                vec![
                    shown(key),
                    change.checks.to_string(),
                    change.newly_refused.to_string(),
                    change.newly_admitted.to_string(),
                ]
            };
            page.table(
                &["key", "checks", "newly refused", "newly admitted"],
                top.into_iter().map(row),
            );
        }
        page.section("What the files say");
        for one in rewordings {
            let removed = one.removed.iter().map(|line| format!("- {line}"));
            let lines: Vec<String> =
                removed.chain(one.added.iter().map(|line| format!("+ {line}"))).collect();
            page.verbatim(&format!("policy {} {}\n{}", one.policy, one.kind(), lines.join("\n")));
        }
        self.remarks.iter().for_each(|remark| page.paragraph(remark));
        page.finish()
    }

    fn picture(&self) -> Picture {
        let span_us = self.is.timeline.span_us();
        let row = |name: &str, side: &Side, refusals| Row {
            name: name.to_owned(),
            notes: vec![
                format!("{} of {} admitted", side.admitted(), side.checks),
                format!("{} refused", share(side.refused, side.checks)),
            ],
            timeline: side.timeline.clone(),
            level: Vec::new(),
            refusals,
        };
        let mut new = row("new", &self.is, self.changes.drawn.kept());
        let (drawn, all) = (new.refusals.len() as u64, self.changes.drawn.seen());
        let of = if drawn < all { format!("{drawn} of {all}") } else { all.to_string() };
        new.notes.push(format!("dots: {of} newly refused"));
        Picture {
            title: format!("{}, old and new policy {}", self.source, self.new.name),
            times: Times::of(span_us.1),
            span_us,
            level_of: None,
            rows: vec![row("old", &self.was, Vec::new()), new],
        }
    }

    pub(super) fn json(&self) -> Value {
        let side = |side: &Side| json!({ "admitted": side.admitted(), "refused": side.refused });
        let key = |(key, change): (&str, Change)| json!({ "key": key, "checks": change.checks, "newly_refused": change.newly_refused, "newly_admitted": change.newly_admitted });
        let keys: Vec<Value> =
            self.changes.keys.top(TOP, Change::all).into_iter().map(key).collect();
        json!({
            "source": self.source,
            "policy": self.new.name,
            "checks": self.was.checks,
            "old": side(&self.was),
            "new": side(&self.is),
            "newly_refused": self.changes.all.newly_refused,
            "newly_admitted": self.changes.all.newly_admitted,
            "newly_refused_by": by_limit(&self.new.built, &self.changes.refused_by),
            "newly_admitted_by": by_limit(&self.old.built, &self.changes.admitted_by),
            "keys_newly_refused": self.changes.keys_refused().count,
            "keys_newly_admitted": self.changes.keys_admitted().count,
            "keys_are_estimates": self.changes.keys.has_forgotten(),
            "most_changed_keys": keys,
            "remarks": self.remarks,
        })
    }
}

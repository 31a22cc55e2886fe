//! Differences for a terminal, as a page, and for programs.

use std::io::{self, Write};

use comfy_table::{Cell, Color};
use serde_json::{Value, json};
use waterclock::Policy;

use super::Comparison;
use super::changes::{Change, PolicyChange, Side};
use crate::picture::{Page, Picture, Row, Times};
use crate::report::{Align, TOP, Table, by_limit, grouped, share};
use crate::terminal::{BAD, GOOD, STRONG, WARN, styled};

impl Comparison {
    /// A page with a picture and tables, which needs no other file.
    #[must_use]
    pub fn page(&self, changes: &[PolicyChange]) -> String {
        let lead = format!(
            "{} checks of {}, under the old policy and under the new one.",
            self.was.checks, self.source
        );
        let mut page = Page::new(&format!("What changes with policy {}", self.new.name()), &lead);
        page.picture(&self.picture().svg());
        page.section("In numbers");
        page.table(&self.numbers());
        let all = &self.changes.all;
        page.paragraph(&format!(
            "{} checks are newly refused and {} newly allowed.",
            all.newly_refused, all.newly_allowed
        ));
        if let Some(keys) = self.most_changed() {
            page.section("Keys that change most");
            page.table(&keys);
        }
        page.section("What changes in the files");
        for change in changes {
            let removed = change.removed.iter().map(|line| format!("- {line}"));
            let lines: Vec<String> =
                removed.chain(change.added.iter().map(|line| format!("+ {line}"))).collect();
            page.verbatim(&format!(
                "policy {} {}\n{}",
                change.policy,
                change.kind(),
                lines.join("\n")
            ));
        }
        self.notes.iter().for_each(|note| page.paragraph(&note.message));
        page.finish()
    }

    fn picture(&self) -> Picture {
        let span_us = self.is.timeline.span_us();
        let row = |name: &str, side: &Side, refusals| Row {
            name: name.to_owned(),
            says: format!(
                "{} of {} allowed, {} refused.",
                grouped(side.allowed()),
                grouped(side.checks),
                share(side.refused, side.checks)
            ),
            in_shadow: None,
            timeline: side.timeline.clone(),
            level: Vec::new(),
            refusals,
        };
        let mut new = row("new", &self.is, self.changes.drawn.kept());
        new.says.push_str(&format!(
            " {} newly refused, {} newly allowed.",
            grouped(self.changes.all.newly_refused),
            grouped(self.changes.all.newly_allowed)
        ));
        Picture {
            title: format!("{}, old and new policy {}", self.source, self.new.name()),
            times: Times::of(span_us.1),
            span_us,
            level_of: None,
            rows: vec![row("old", &self.was, Vec::new()), new],
        }
    }

    pub(super) fn json(&self) -> Value {
        let side = |side: &Side| json!({ "allowed": side.allowed(), "refused": side.refused });
        let key = |(key, change): (&str, Change)| json!({ "key": key, "checks": change.checks, "newly_refused": change.newly_refused, "newly_allowed": change.newly_allowed });
        let keys: Vec<Value> =
            self.changes.keys.top(TOP, Change::all).into_iter().map(key).collect();
        json!({
            "source": self.source,
            "policy": self.new.name(),
            "checks": self.was.checks,
            "old": side(&self.was),
            "new": side(&self.is),
            "newly_refused": self.changes.all.newly_refused,
            "newly_allowed": self.changes.all.newly_allowed,
            "newly_refused_by": by_limit(self.new.policy(), &self.changes.refused_by),
            "newly_allowed_by": by_limit(self.old.policy(), &self.changes.allowed_by),
            "keys_newly_refused": self.changes.keys_refused().count,
            "keys_newly_allowed": self.changes.keys_allowed().count,
            "keys_are_estimates": self.changes.keys.has_evicted(),
            "most_changed_keys": keys,
            "remarks": self.notes,
        })
    }
}

/// Writes the changes of the policies, and of the traffic if there is some, with colours.
pub fn write_changes(
    out: &mut impl Write,
    changes: &[PolicyChange],
    comparison: Option<&Comparison>,
) -> io::Result<()> {
    if changes.is_empty() {
        writeln!(out, "no policy changes")?;
    }
    for change in changes {
        writeln!(out, "{} {}", styled(STRONG, format!("policy {}", change.policy)), change.kind())?;
        change
            .removed
            .iter()
            .try_for_each(|line| writeln!(out, "{}", styled(BAD, format!("- {line}"))))?;
        change
            .added
            .iter()
            .try_for_each(|line| writeln!(out, "{}", styled(GOOD, format!("+ {line}"))))?;
    }
    comparison.map_or(Ok(()), |comparison| comparison.write(out))
}

impl Comparison {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let all = &self.changes.all;
        writeln!(
            out,
            "{}",
            styled(
                STRONG,
                format!(
                    "{} checks of {} under policy {}",
                    grouped(self.was.checks),
                    self.source,
                    self.new.name()
                )
            )
        )?;
        self.numbers().write(out, " ")?;
        let mut line = |title, count: u64, keys, by: String| {
            writeln!(out, "{title} {:>12}  of {keys}{by}", grouped(count))
        };
        let changes = &self.changes;
        let now = by("by", self.new.policy(), &changes.refused_by);
        let title = styled(BAD, "newly refused");
        line(title, all.newly_refused, changes.keys_refused(), now)?;
        let before = by("formerly refused by", self.old.policy(), &changes.allowed_by);
        let title = styled(GOOD, "newly allowed");
        line(title, all.newly_allowed, changes.keys_allowed(), before)?;
        if let Some(keys) = self.most_changed() {
            writeln!(out, "{}", styled(STRONG, "keys that change most"))?;
            keys.write(out, " ")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(out, "{} {note}", styled(WARN, "note:")))
    }

    /// What both policies do in all.
    fn numbers(&self) -> Table {
        let (was, is, checks) = (&self.was, &self.is, self.was.checks);
        let row = |word: &str, color, was: u64, is: u64| {
            [
                Cell::new(word).fg(color),
                Cell::new(grouped(was)),
                Cell::new(share(was, checks)),
                Cell::new(grouped(is)),
                Cell::new(share(is, checks)),
                Cell::new(format!("{:+}", i128::from(is) - i128::from(was))),
            ]
        };
        let names = ["", "old", "", "new", "", "change"];
        Table::new(
            names.map(|name| (name, Align::Right)),
            [
                row("allowed", Color::Green, was.allowed(), is.allowed()),
                row("refused", Color::Red, was.refused, is.refused),
            ],
        )
    }

    fn most_changed(&self) -> Option<Table> {
        let top = self.changes.keys.top(TOP, Change::all);
        let row = |(key, change): &(&str, Change)| {
            [
                Cell::new(change.newly_refused).fg(Color::Red),
                Cell::new(change.newly_allowed).fg(Color::Green),
                Cell::new(format!("of {}", change.checks)),
                Cell::new(format!("{key:?}")),
            ]
        };
        use Align::{Left, Right};
        let head =
            [("newly refused", Right), ("newly allowed", Right), ("checks", Right), ("key", Left)];
        (!top.is_empty()).then(|| Table::new(head, top.iter().map(row)))
    }
}

/// By which limits.
fn by(word: &str, policy: &Policy, counts: &[u64]) -> String {
    let limits = policy.limits().iter().zip(counts).filter(|(_, count)| **count > 0);
    let parts: Vec<String> =
        limits.map(|(limit, count)| format!("{count} {word} {}", limit.name())).collect();
    if parts.is_empty() { String::new() } else { format!(", {}", parts.join(", ")) }
}

//! Differences for a terminal and for programs.

use std::io::{self, Write};

use comfy_table::{Cell, Color};
use serde_json::{Value, json};
use waterclock::Policy;

use super::Comparison;
use super::changes::{Change, PolicyChange, Side};
use super::why::Reason;
use crate::report::{Align, TOP, Table, by_limit, counted, grouped, share};
use crate::terminal::{BAD, GOOD, STRONG, WARN, styled};
use crate::timeline::Bin;

/// How many keys programs and pages are told about.
const LISTED: usize = 50;

impl Comparison {
    /// One sentence that says what changes.
    pub(super) fn headline(&self) -> String {
        let (changes, checks) = (&self.changes, self.was.checks);
        let (refused, allowed) = (changes.keys_refused(), changes.keys_allowed());
        if checks == 0 {
            return "There was nothing to check".to_owned();
        }
        let shares = (share(self.was.refused, checks), share(self.is.refused, checks));
        if refused.count + allowed.count == 0 {
            return format!(
                "No client is decided about differently; {} of checks refused",
                shares.1
            );
        }
        let about = if refused.is_estimate { "about " } else { "" };
        format!(
            "{about}{} newly refused, {} newly allowed; {} of checks refused before, {} now",
            counted(refused.count, "client"),
            grouped(allowed.count as u64),
            shares.0,
            shares.1
        )
    }

    pub(super) fn json(&self) -> Value {
        let reasons = |all: Vec<(&Reason, u64)>| -> Vec<Value> {
            all.into_iter().map(|(reason, checks)| reason.json(checks)).collect()
        };
        let side = |side: &Side| json!({ "allowed": side.allowed(), "refused": side.refused });
        let key = |(key, change): (&str, Change)| json!({ "key": key, "checks": change.checks, "newly_refused": change.newly_refused, "newly_allowed": change.newly_allowed, "reasons": reasons(self.changes.reasons_of(&change)) });
        let keys: Vec<Value> =
            self.changes.keys.top(LISTED, Change::all).into_iter().map(key).collect();
        json!({
            "headline": self.headline(),
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
            "reasons": reasons(self.changes.reasons()),
            "most_changed_keys": keys,
            "timeline": self.timeline(),
            "remarks": self.notes,
        })
    }

    /// Both sides over time. All of them count all checks, so they have the same bins.
    fn timeline(&self) -> Value {
        let sides = [
            &self.was.timeline,
            &self.is.timeline,
            &self.changes.refused_over_time,
            &self.changes.allowed_over_time,
        ];
        let mut others = sides.map(|side| side.bins().map(|(_, bin)| bin.offered - bin.allowed));
        let bin = |(t_us, bin): (u64, Bin)| {
            let [old, new, newly_refused, newly_allowed] =
                others.each_mut().map(|side| side.next().unwrap_or(0));
            json!({ "t_us": t_us, "offered": bin.offered, "old_refused": old, "new_refused": new, "newly_refused": newly_refused, "newly_allowed": newly_allowed })
        };
        let bins: Vec<Value> = self.was.timeline.bins().map(bin).collect();
        json!({ "bin_us": self.was.timeline.width_us(), "bins": bins })
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
        let reasons = changes.reasons();
        if !reasons.is_empty() {
            writeln!(out, "{}", styled(STRONG, "why"))?;
        }
        for (reason, checks) in reasons.iter().take(TOP) {
            writeln!(out, "  {:>12}  {}", grouped(*checks), reason.sentence())?;
        }
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
                Cell::new(grouped(change.newly_refused)).fg(Color::Red),
                Cell::new(grouped(change.newly_allowed)).fg(Color::Green),
                Cell::new(format!("of {}", grouped(change.checks))),
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
    let parts: Vec<String> = limits
        .map(|(limit, count)| format!("{} {word} {}", grouped(*count), limit.name()))
        .collect();
    if parts.is_empty() { String::new() } else { format!(", {}", parts.join(", ")) }
}

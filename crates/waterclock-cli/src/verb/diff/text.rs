//! Differences for a terminal.

use std::io::{self, Write};

use comfy_table::{Cell, Color};
use waterclock::Policy;

use super::changes::Change;
use super::{Rewording, Tried};
use crate::report::{Align, TOP, share, table};
use crate::style::{BAD, GOOD, STRONG, WARN, styled};

pub(super) fn write(
    out: &mut impl Write,
    rewordings: &[Rewording],
    tried: Option<&Tried>,
) -> io::Result<()> {
    if rewordings.is_empty() {
        writeln!(out, "no policy changes")?;
    }
    for one in rewordings {
        writeln!(out, "{} {}", styled(STRONG, format!("policy {}", one.policy)), one.kind())?;
        one.removed
            .iter()
            .try_for_each(|line| writeln!(out, "{}", styled(BAD, format!("- {line}"))))?;
        one.added
            .iter()
            .try_for_each(|line| writeln!(out, "{}", styled(GOOD, format!("+ {line}"))))?;
    }
    tried.map_or(Ok(()), |tried| tried.write(out))
}

impl Tried {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (all, checks) = (&self.changes.all, self.was.checks);
        writeln!(
            out,
            "{}",
            styled(
                STRONG,
                format!("{checks} checks of {} under policy {}", self.source, self.new.name)
            )
        )?;
        let row = |word: &str, color, was: u64, is: u64| {
            vec![
                Cell::new(word).fg(color),
                Cell::new(was),
                Cell::new(share(was, checks)),
                Cell::new(is),
                Cell::new(share(is, checks)),
                Cell::new(format!("{:+}", i128::from(is) - i128::from(was))),
            ]
        };
        use Align::{Left, Right};
        let head = [
            ("", Left),
            ("old", Right),
            ("", Right),
            ("new", Right),
            ("", Right),
            ("change", Right),
        ];
        let (was, is) = (&self.was, &self.is);
        let rows = [
            row("admitted", Color::Green, was.admitted(), is.admitted()),
            row("refused", Color::Red, was.refused, is.refused),
        ];
        table(&head, rows).iter().try_for_each(|line| writeln!(out, " {line}"))?;
        let mut line = |title, count: u64, keys, by: String| {
            writeln!(out, "{title} {count:>12}  of {keys}{by}")
        };
        let changes = &self.changes;
        let now = by("by", &self.new.built, &changes.refused_by);
        let title = styled(BAD, "newly refused ");
        line(title, all.newly_refused, changes.keys_refused(), now)?;
        let before = by("formerly refused by", &self.old.built, &changes.admitted_by);
        let title = styled(GOOD, "newly admitted");
        line(title, all.newly_admitted, changes.keys_admitted(), before)?;
        self.write_keys(out)?;
        self.remarks
            .iter()
            .try_for_each(|remark| writeln!(out, "{} {remark}", styled(WARN, "note:")))
    }

    fn write_keys(&self, out: &mut impl Write) -> io::Result<()> {
        let top = self.changes.keys.top(TOP, Change::all);
        if top.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}", styled(STRONG, "for whom most changes"))?;
        let row = |(key, change): (&str, Change)| {
            vec![
                Cell::new(change.newly_refused).fg(Color::Red),
                Cell::new(change.newly_admitted).fg(Color::Green),
                Cell::new(format!("of {}", change.checks)),
                Cell::new(format!("{key:?}")),
            ]
        };
        use Align::{Left, Right};
        let head =
            [("newly refused", Right), ("newly admitted", Right), ("checks", Right), ("key", Left)];
        table(&head, top.into_iter().map(row)).iter().try_for_each(|line| writeln!(out, " {line}"))
    }
}

/// By which limits.
fn by(word: &str, policy: &Policy, counts: &[u64]) -> String {
    let limits = policy.limits().iter().zip(counts).filter(|(_, count)| **count > 0);
    let parts: Vec<String> =
        limits.map(|(limit, count)| format!("{count} {word} {}", limit.name())).collect();
    if parts.is_empty() { String::new() } else { format!(", {}", parts.join(", ")) }
}

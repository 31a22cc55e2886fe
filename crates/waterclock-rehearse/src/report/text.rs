//! A report for a terminal.

use std::io::{self, Write};

use comfy_table::{Cell, Color};
use waterclock_config::Micros;

use super::keys::KeyRecord;
use super::units::{Align, grouped, share, spark, table};
use super::{Report, TOP};
use crate::picture::Times;
use crate::terminal::{BAD, GOOD, STRONG, WARN, styled};

/// The width of the line that shows when refusals came.
const COLUMNS: usize = 60;

impl Report<'_> {
    /// Writes the report as text with colours.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_totals(out)?;
        self.write_limits(out, "refused by limit", &self.ledger.refused_by)?;
        self.write_listed(out)?;
        self.write_limits(out, "shadow-refused by limit", &self.ledger.shadow_refused_by)?;
        self.write_keys(out)?;
        self.write_keys_in_shadow(out)?;
        if self.ledger.refused > 0 {
            self.write_when(out)?;
        }
        if self.has_news() {
            self.write_smallest(out)?;
        }
        for note in &self.notes {
            writeln!(out, "{} {note}", styled(WARN, "note:"))?;
        }
        out.flush()
    }

    fn write_totals(&self, out: &mut impl Write) -> io::Result<()> {
        let ledger = &self.ledger;
        writeln!(out, "{:<14}{:>13}", "events", grouped(ledger.events))?;
        write!(out, "{:<14}{:>13}", "checks", grouped(ledger.checks))?;
        write!(out, "   by {}", ledger.keys.number())?;
        if let Some((from_us, until_us)) = ledger.span_us {
            let times = Times::of(until_us);
            let (from, until) = (times.show(from_us), times.show(until_us));
            write!(out, ", from {from} to {until}")?;
        }
        writeln!(out)?;
        let mut line = |style, word: &str, count: u64| {
            let (word, number) = (format!("{word:<14}"), grouped(count));
            writeln!(out, "{}{number:>13}   {}", styled(style, word), share(count, ledger.checks))
        };
        line(GOOD, "allowed", ledger.allowed)?;
        if ledger.in_part > 0 {
            line(GOOD, "in part", ledger.in_part)?;
        }
        line(BAD, "refused", ledger.refused)?;
        if ledger.in_shadow > 0 {
            line(WARN, "shadow-refused", ledger.in_shadow)?;
        }
        Ok(())
    }

    fn write_limits(&self, out: &mut impl Write, title: &str, counts: &[u64]) -> io::Result<()> {
        if counts.iter().all(|count| *count == 0) {
            return Ok(());
        }
        writeln!(out, "{}", styled(STRONG, title))?;
        for (limit, count) in self.policy.limits().iter().zip(counts) {
            if *count > 0 {
                writeln!(out, "  {:>12}  {}", grouped(*count), limit.name())?;
            }
        }
        Ok(())
    }

    /// Refusals of no limit of the policy.
    fn write_listed(&self, out: &mut impl Write) -> io::Result<()> {
        let ledger = &self.ledger;
        let words = [
            (ledger.blocked, "of blocked keys"),
            (ledger.refused_by_custom, "by custom limits of single keys"),
        ];
        words.iter().filter(|(count, _)| *count > 0).try_for_each(|(count, words)| {
            writeln!(out, "{:<14}{:>13}   {words}", "refused", grouped(*count))
        })
    }

    fn write_keys(&self, out: &mut impl Write) -> io::Result<()> {
        let top = self.ledger.keys.top(TOP, |record| record.refused);
        let Some((_, until_us)) = self.ledger.span_us.filter(|_| !top.is_empty()) else {
            return Ok(());
        };
        let all = self.ledger.keys_refused();
        let more = if all.count > top.len() { format!(" (of {all})") } else { String::new() };
        writeln!(out, "{}{more}", styled(STRONG, "most refused keys"))?;
        let times = Times::of(until_us);
        let row = |(key, record): (&str, KeyRecord)| {
            vec![
                Cell::new(grouped(record.refused)).fg(Color::Red),
                Cell::new(format!("of {}", grouped(record.checks))),
                Cell::new(times.show(record.first_refused_us)),
                Cell::new(times.show(record.last_refused_us)),
                Cell::new(record.longest),
                Cell::new(format!("{key:?}")),
            ]
        };
        use Align::{Left, Right};
        let head = [
            ("refused", Right),
            ("checks", Right),
            ("first", Left),
            ("last", Left),
            ("longest wait", Right),
            ("key", Left),
        ];
        table(&head, top.into_iter().map(row)).iter().try_for_each(|line| writeln!(out, " {line}"))
    }

    fn write_keys_in_shadow(&self, out: &mut impl Write) -> io::Result<()> {
        let top = self.ledger.keys.top(TOP, |record| record.in_shadow);
        if top.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}", styled(STRONG, "most shadow-refused keys"))?;
        let row = |(key, record): (&str, KeyRecord)| {
            vec![
                Cell::new(grouped(record.in_shadow)).fg(Color::Yellow),
                Cell::new(format!("of {}", grouped(record.checks))),
                Cell::new(format!("{key:?}")),
            ]
        };
        use Align::{Left, Right};
        let head = [("shadow-refused", Right), ("checks", Right), ("key", Left)];
        table(&head, top.into_iter().map(row)).iter().try_for_each(|line| writeln!(out, " {line}"))
    }

    fn write_when(&self, out: &mut impl Write) -> io::Result<()> {
        let bins: Vec<(u64, u64)> = self
            .ledger
            .timeline
            .bins()
            .map(|(t_us, bin)| (t_us, bin.offered - bin.allowed))
            .collect();
        let worst = bins.iter().max_by_key(|(t_us, refused)| (*refused, std::cmp::Reverse(*t_us)));
        let Some((worst_us, refused)) = worst.copied() else { return Ok(()) };
        let columns: Vec<u64> = bins
            .chunks(bins.len().div_ceil(COLUMNS))
            .map(|some| some.iter().map(|(_, refused)| refused).sum())
            .collect();
        let (times, width) = (
            Times::of(self.ledger.timeline.span_us().1),
            Micros(self.ledger.timeline.width_us()).in_words(),
        );
        writeln!(out, "{} |{}|", styled(STRONG, "when"), styled(BAD, spark(&columns)))?;
        writeln!(
            out,
            "  most in the {width} from {}: {} refused",
            times.show(worst_us),
            grouped(refused)
        )
    }

    fn write_smallest(&self, out: &mut impl Write) -> io::Result<()> {
        if self.smallest.is_empty() {
            return Ok(());
        }
        let of = self.extent();
        writeln!(
            out,
            "{}",
            styled(STRONG, format!("the smallest limits that would have refused{of}"))
        )?;
        let rows = self.smallest.iter().map(|found| {
            let words = |limit: &Option<_>| Cell::new(found.words(limit.as_ref()));
            vec![Cell::new(&found.limit), words(&found.none), words(&found.one_percent)]
        });
        use Align::Left;
        let head = [("each alone", Left), ("no check", Left), ("at most 1 % of checks", Left)];
        table(&head, rows).iter().try_for_each(|line| writeln!(out, " {line}"))
    }
}

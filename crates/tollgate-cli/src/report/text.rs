//! A report for a terminal.

use std::io::{self, Write};

use comfy_table::{Cell, Color};

use super::keys::KeyRecord;
use super::table::{Align, table};
use super::when::{counted, share, spark, times_of};
use super::{Report, TOP};
use crate::meaning::in_short;
use crate::picture::at_a_glance;
use crate::style::{BAD, GOOD, STRONG, WARN, styled};

/// So many columns tell when refusals came.
const COLUMNS: usize = 60;

impl Report<'_> {
    pub(crate) fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_totals(out)?;
        self.write_limits(out, "refused by limit", &self.ledger.refused_by)?;
        let in_shadow = "would have been refused in shadow by limit";
        self.write_limits(out, in_shadow, &self.ledger.shadow_refused_by)?;
        self.write_keys(out, "most refused keys", |record| record.refused)?;
        if self.ledger.refused > 0 {
            self.write_when(out)?;
            self.write_smallest(out)?;
        }
        for remark in &self.remarks {
            writeln!(out, "{} {remark}", styled(WARN, "note:"))?;
        }
        out.flush()
    }

    fn write_totals(&self, out: &mut impl Write) -> io::Result<()> {
        let ledger = &self.ledger;
        writeln!(out, "events   {:>12}", ledger.events)?;
        write!(out, "checks   {:>12}", ledger.checks)?;
        let more = if ledger.keys.has_forgotten() { " and more" } else { "" };
        write!(out, "   by {}{more}", counted(ledger.keys.len(), "key"))?;
        if let Some((from_us, until_us)) = ledger.span_us {
            let times = times_of(until_us);
            let (from, until) = (times.show(from_us, 0), times.show(until_us, 0));
            write!(out, ", from {from} to {until}")?;
        }
        writeln!(out)?;
        let mut line = |style, word: &str, count: u64| {
            let padded = format!("{word:<9}");
            writeln!(out, "{}{count:>12}   {}", styled(style, padded), share(count, ledger.checks))
        };
        line(GOOD, "allowed", ledger.allowed)?;
        if ledger.in_part > 0 {
            line(GOOD, "in part", ledger.in_part)?;
        }
        line(BAD, "refused", ledger.refused)
    }

    fn write_limits(&self, out: &mut impl Write, title: &str, counts: &[u64]) -> io::Result<()> {
        if counts.iter().all(|count| *count == 0) {
            return Ok(());
        }
        writeln!(out, "{}", styled(STRONG, title))?;
        for (limit, count) in self.spec.built.limits().iter().zip(counts) {
            if *count > 0 {
                writeln!(out, "  {count:>12}  {}", limit.name())?;
            }
        }
        Ok(())
    }

    fn write_keys(
        &self,
        out: &mut impl Write,
        title: &str,
        of: impl Fn(&KeyRecord) -> u64,
    ) -> io::Result<()> {
        let top = self.ledger.keys.top(TOP, of);
        let Some((_, until_us)) = self.ledger.span_us.filter(|_| !top.is_empty()) else {
            return Ok(());
        };
        let all = self.ledger.keys_refused();
        let more = if all > top.len() { format!(" (of {all})") } else { String::new() };
        writeln!(out, "{}{more}", styled(STRONG, title))?;
        let times = times_of(until_us);
        let row = |(key, record): (&str, KeyRecord)| {
            vec![
                Cell::new(record.refused).fg(Color::Red),
                Cell::new(format!("of {}", record.checks)),
                Cell::new(times.show(record.first_refused_us, 0)),
                Cell::new(times.show(record.last_refused_us, 0)),
                Cell::new(at_a_glance(record.longest_wait_us)),
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

    fn write_when(&self, out: &mut impl Write) -> io::Result<()> {
        let bins: Vec<(u64, u64)> = self
            .ledger
            .timeline
            .bins()
            .map(|(t_us, bin)| (t_us, bin.offered - bin.admitted))
            .collect();
        let worst = bins.iter().max_by_key(|(t_us, refused)| (*refused, std::cmp::Reverse(*t_us)));
        let Some((worst_us, refused)) = worst.copied() else { return Ok(()) };
        let columns: Vec<u64> = bins
            .chunks(bins.len().div_ceil(COLUMNS))
            .map(|some| some.iter().map(|(_, refused)| refused).sum())
            .collect();
        let (times, width) = (times_of(worst_us), at_a_glance(self.ledger.timeline.width_us()));
        writeln!(out, "{} |{}|", styled(STRONG, "when"), styled(BAD, spark(&columns)))?;
        writeln!(out, "  most in the {width} from {}: {refused} refused", times.show(worst_us, 0))
    }

    fn write_smallest(&self, out: &mut impl Write) -> io::Result<()> {
        if self.smallest.is_empty() {
            return Ok(());
        }
        let of = if self.is_whole { "" } else { ", by a sample of keys" };
        writeln!(
            out,
            "{}",
            styled(STRONG, format!("the smallest limits that would have refused{of}"))
        )?;
        let words = |found: &Option<_>| found.as_ref().map_or_else(|| "–".to_owned(), in_short);
        let rows = self.smallest.iter().map(|found| {
            vec![
                Cell::new(&found.limit),
                Cell::new(words(&found.nobody)),
                Cell::new(words(&found.one_percent)),
            ]
        });
        use Align::Left;
        let head = [("each alone", Left), ("nobody", Left), ("at most 1 % of checks", Left)];
        table(&head, rows).iter().try_for_each(|line| writeln!(out, " {line}"))
    }
}

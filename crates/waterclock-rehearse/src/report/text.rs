//! A report for a terminal.

use std::io::{self, Write};

use comfy_table::Cell;
use waterclock_config::Micros;

use super::grouped;
use super::keys::{KeyRecord, hash_of};
use super::page::PICTURE_BINS;
use super::units::{Align, Table, share, spark};
use super::{Report, TOP};
use crate::expr::quoted;
use crate::picture::Times;
use crate::terminal::{BAD, STRONG, WARN, styled};
use crate::timeline::Bin;

/// The width of the line that shows when refusals came.
const COLUMNS: usize = 60;

impl Report<'_> {
    /// Writes the report as text with colours.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", styled(STRONG, self.headline()))?;
        if let Some(suggestion) = self.suggestion() {
            writeln!(out, "what to change: {suggestion}")?;
        }
        self.write_totals(out)?;
        self.write_limits(out, "refused by limit", &self.ledger.refused_by)?;
        self.write_listed(out)?;
        self.write_limits(out, "shadow-refused by limit", &self.ledger.shadow_refused_by)?;
        let (refused, shown) = (self.ledger.keys_refused(), TOP);
        let more = if refused.count > shown { format!(" (of {refused})") } else { String::new() };
        self.write_keys(out, &format!("most refused keys{more}"), |record| record.refused)?;
        self.write_keys(out, "most shadow-refused keys", |record| record.in_shadow)?;
        if self.ledger.refused > 0 {
            self.write_when(out)?;
        }
        if self.ledger.refused + self.ledger.in_shadow == 0 {
            self.write_busiest(out)?;
        }
        self.write_advice(out)?;
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
        for (style, word, count) in self.totals() {
            let (word, number) = (format!("{word:<14}"), grouped(count));
            let share = share(count, ledger.checks);
            writeln!(out, "{}{number:>13}   {share}", styled(style, word))?;
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

    fn write_keys(
        &self,
        out: &mut impl Write,
        title: &str,
        of: impl Fn(&KeyRecord) -> u64,
    ) -> io::Result<()> {
        match self.keys(of) {
            Some(keys) => {
                writeln!(out, "{}", styled(STRONG, title))?;
                keys.write(out, " ")
            }
            None => Ok(()),
        }
    }

    fn write_when(&self, out: &mut impl Write) -> io::Result<()> {
        let timeline = self.ledger.timeline.merged(PICTURE_BINS);
        let refused = |(t_us, bin): (u64, Bin)| (t_us, bin.offered - bin.allowed);
        let bins: Vec<(u64, u64)> = timeline.bins().map(refused).collect();
        let worst = bins.iter().max_by_key(|(t_us, refused)| (*refused, std::cmp::Reverse(*t_us)));
        let Some((worst_us, refused)) = worst.copied() else { return Ok(()) };
        let columns: Vec<u64> = bins
            .chunks(bins.len().div_ceil(COLUMNS))
            .map(|some| some.iter().map(|(_, refused)| refused).sum())
            .collect();
        let (times, width) =
            (Times::of(timeline.span_us().1), Micros(timeline.width_us()).in_words());
        writeln!(out, "{} |{}|", styled(STRONG, "when"), styled(BAD, spark(&columns)))?;
        writeln!(
            out,
            "  most in the {width} from {}: {} refused",
            times.show(worst_us),
            grouped(refused)
        )
    }

    /// Where nothing is refused, the clients that limits would be about.
    fn write_busiest(&self, out: &mut impl Write) -> io::Result<()> {
        let row = |(key, record): (&str, KeyRecord)| {
            let detail = self.ledger.details.of(hash_of(key));
            let first = |texts: Vec<(&str, u64)>| {
                texts.first().map_or("–".to_owned(), |(text, _)| shortened(text))
            };
            [
                Cell::new(grouped(record.checks)),
                Cell::new(share(record.checks, self.ledger.checks)),
                Cell::new(format!("{key:?}")),
                Cell::new(detail.map_or("–".to_owned(), |detail| first(detail.paths.top()))),
                Cell::new(detail.map_or("–".to_owned(), |detail| first(detail.agents.top()))),
            ]
        };
        use Align::{Left, Right};
        let head = [
            ("checks", Right),
            ("share", Right),
            ("key", Left),
            ("most asked for", Left),
            ("mostly with", Left),
        ];
        let top = self.ledger.keys.top(TOP, |record| record.checks);
        if top.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}", styled(STRONG, "busiest clients"))?;
        Table::new(head, top.into_iter().map(row)).write(out, " ")
    }
}

/// As much of a path or an agent as leaves the other columns their room.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(MOST_OF_A_TEXT) {
        Some((end, _)) => format!("{}…", quoted(&text[..end])),
        None => quoted(text),
    }
}

const MOST_OF_A_TEXT: usize = 44;

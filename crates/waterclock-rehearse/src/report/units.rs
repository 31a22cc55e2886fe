//! Counts, shares and waits as people read them, and tables for terminals.

use std::fmt;
use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement};

use crate::terminal::grouped;
use waterclock_config::Micros;

/// A percentage that is 0 only for none, and 100 only for all.
pub(crate) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    match percent {
        _ if part == 0 => "0 %".to_owned(),
        _ if part == whole => "100 %".to_owned(),
        _ if percent < 0.01 => "< 0.01 %".to_owned(),
        _ if percent < 1.0 => format!("{percent:.2} %"),
        _ if percent > 99.9 => "> 99.9 %".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// A count with its noun: `one key`, `3,000 keys`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("one {what}") } else { format!("{} {what}s", grouped(count as u64)) }
}

/// Blocks of eight heights, relative to the largest value.
pub(super) fn spark(values: &[u64]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().max().copied().unwrap_or(0).max(1);
    let block = |value: &u64| match value {
        0 => ' ',
        _ => {
            let place = usize::try_from(u128::from(*value) * 8 / u128::from(most)).unwrap_or(7);
            BLOCKS[place.min(7)]
        }
    };
    values.iter().map(block).collect()
}

/// The longest wait that was advised; never, if once no wait would have helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LongestWait {
    us: u64,
    is_never: bool,
}

impl LongestWait {
    pub(crate) fn add(&mut self, wait_us: Option<u64>) {
        self.us = self.us.max(wait_us.unwrap_or(0));
        self.is_never |= wait_us.is_none();
    }

    /// In microseconds; `None` is never.
    pub(crate) fn us(&self) -> Option<u64> {
        (!self.is_never).then_some(self.us)
    }
}

impl fmt::Display for LongestWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.us() {
            Some(us) => f.write_str(&Micros(us).for_people()),
            None => f.write_str("never"),
        }
    }
}

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table for people: on a terminal or on a page.
pub(crate) struct Table {
    pub(crate) head: Vec<(String, Align)>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new<const COLUMNS: usize>(
        head: [(&str, Align); COLUMNS],
        rows: impl IntoIterator<Item = [Cell; COLUMNS]>,
    ) -> Table {
        Table {
            head: head.map(|(name, align)| (name.to_owned(), align)).into(),
            rows: rows.into_iter().map(Vec::from).collect(),
        }
    }

    /// Writes it with a bold head. Nothing is wrapped: scripts need whole lines.
    pub(crate) fn write(&self, out: &mut impl Write, indent: &str) -> io::Result<()> {
        let mut table = comfy_table::Table::new();
        table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let bold = |(name, _): &(String, Align)| Cell::new(name).add_attribute(Attribute::Bold);
        table.set_header(self.head.iter().map(bold));
        table.add_rows(self.rows.clone());
        for (column, (_, align)) in table.column_iter_mut().zip(&self.head) {
            if *align == Align::Right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().try_for_each(|line| writeln!(out, "{indent}{}", line.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_round_to_none_or_all() {
        let cases = [
            (0, 10, "0 %"),
            (1, 1_000_000, "< 0.01 %"),
            (1, 200, "0.50 %"),
            (1, 3, "33.3 %"),
            (9_999, 10_000, "> 99.9 %"),
            (10, 10, "100 %"),
            (0, 0, "–"),
        ];
        for (part, whole, words) in cases {
            assert_eq!(share(part, whole), words);
        }
    }

    #[test]
    fn groups_of_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(counted(20_000, "key"), "20,000 keys");
    }

    #[test]
    fn sparks() {
        assert_eq!(spark(&[0, 1, 4, 8]), " ▂▅█");
        assert_eq!(spark(&[]), "");
    }
}

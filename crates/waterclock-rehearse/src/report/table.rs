//! Tables for terminals.

use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table};

/// How a column stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Lines of a table with a bold head. Nothing is wrapped: a terminal does that, and scripts need whole lines.
pub fn table(head: &[(&str, Align)], rows: impl IntoIterator<Item = Vec<Cell>>) -> Vec<String> {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(head.iter().map(|(name, _)| Cell::new(name).add_attribute(Attribute::Bold)));
    table.add_rows(rows);
    for (column, (_, align)) in table.column_iter_mut().zip(head) {
        if *align == Align::Right {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

//! The tables: policies, and the keys that are refused most.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Row, Table, TableState};

use super::super::rates::{Now, Rates};
use super::super::snapshot::PolicyTotals;
use super::super::units::rate;
use super::palette::Palette;
use super::view::View;

pub(super) fn draw_policies(frame: &mut Frame<'_>, area: Rect, view: &View, palette: &Palette) {
    let header = ["policy", "allowed/s", "refused/s", "shadow/s", "share", "keys"];
    let header = header.iter().enumerate().map(|(place, name)| aligned(place, (*name).to_owned()));
    let rows = view.rows();
    let keys =
        |policy| view.watched.now().map_or_else(String::new, |now| now.snapshot.keys_of(policy));
    let lines = rows.iter().map(|(policy, rates)| row(policy, keys(policy), *rates, palette));
    let title = format!(" policies by {} ", view.order.name());
    let widths = [
        Constraint::Fill(1),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Length(8),
        Constraint::Length(8),
    ];
    let table = Table::new(lines, widths)
        .header(Row::new(header).style(palette.faint()))
        .row_highlight_style(palette.selected())
        .block(Block::bordered().title(title));
    let mut state = TableState::default().with_selected(view.place());
    frame.render_stateful_widget(table, area, &mut state);
}

fn row<'r>(policy: &'r PolicyTotals, keys: String, rates: Rates, palette: &Palette) -> Row<'r> {
    let asked = rates.allow + rates.deny + rates.shadow_deny;
    let share =
        if asked > 0.0 { format!("{:.0}%", 100.0 * rates.deny / asked) } else { "–".into() };
    let cells = [
        policy.name.clone(),
        rate(rates.allow),
        rate(rates.deny),
        rate(rates.shadow_deny),
        share,
        keys,
    ];
    let cells = cells.into_iter().enumerate().map(|(place, text)| aligned(place, text));
    let row = Row::new(cells);
    if rates.deny > 0.0 { row.style(palette.warn()) } else { row }
}

/// Names to the left, numbers to the right.
fn aligned<'t>(place: usize, text: String) -> Text<'t> {
    Text::from(text).alignment(if place == 0 { Alignment::Left } else { Alignment::Right })
}

pub(super) fn draw_refused(frame: &mut Frame<'_>, area: Rect, now: &Now, palette: &Palette) {
    let refused = &now.snapshot.refused;
    let title = match refused.shown.as_str() {
        "hashed" => " most refused keys (hashed) ",
        _ => " most refused keys ",
    };
    let block = Block::bordered().title(title);
    if refused.keys.is_empty() {
        let none = Line::from("none in the last minutes").style(palette.faint());
        return frame.render_widget(ratatui::widgets::Paragraph::new(none).block(block), area);
    }
    let rows = refused.keys.iter().map(|key| {
        let count = Text::from(key.refusals.to_string()).alignment(Alignment::Right);
        Row::new([count, Text::from(key.policy.as_str()), Text::from(key.key.as_str())])
    });
    let widths = [Constraint::Length(8), Constraint::Percentage(30), Constraint::Fill(1)];
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

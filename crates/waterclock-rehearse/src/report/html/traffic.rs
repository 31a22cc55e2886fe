//! When checks were refused, by which limits, and whose.

use serde_json::Value;

use super::{list, number, words};
use crate::page::{Column, Page, Part};
use crate::picture::Times;

/// How many rows the table of the timeline has at most.
const MOST_ROWS: usize = 24;

/// The picture that the script draws, and a table for readers who cannot see it.
pub(super) fn timeline(page: &mut Page, report: &Value, times: Times) {
    let bins: Vec<&Value> = list(&report["timeline"], "bins").collect();
    if bins.is_empty() {
        return;
    }
    page.section("Over time");
    page.drawn("id=\"timeline\"");
    page.fold_numbers();
    let columns = ["from", "checks", "allowed", "refused", "share refused"];
    over_time(page, &bins, times, &columns.map(Column::number), |sum| {
        let (offered, allowed) = (sum("offered"), sum("allowed"));
        let refused = offered.saturating_sub(allowed);
        vec![
            Part::Number(offered),
            Part::Number(allowed),
            Part::Number(refused),
            Part::Share(refused, offered),
        ]
    });
    page.end_fold();
}

/// The bins of a timeline as a table, several in each row: their start, and cells from the sums of their fields.
pub(crate) fn over_time(
    page: &mut Page,
    bins: &[&Value],
    times: Times,
    columns: &[Column<'_>],
    cells: impl Fn(&dyn Fn(&str) -> u64) -> Vec<Part<'static>>,
) {
    let rows = bins.chunks(bins.len().div_ceil(MOST_ROWS).max(1)).map(|some| {
        let mut row = vec![Part::Time(times, some[0]["t_us"].as_u64())];
        row.extend(cells(&|field| some.iter().map(|bin| number(bin, field)).sum()));
        row
    });
    page.rows("class=\"plain\"", columns, rows);
}

/// How many colours there are for limits.
const COLOURS: usize = 6;

pub(super) fn limits(page: &mut Page, report: &Value) {
    let limits: Vec<&Value> = list(report, "limits").collect();
    let counts = |field: &str, name: &str| report[field][name].as_u64().unwrap_or(0);
    let checks = number(report, "checks");
    if limits.is_empty() {
        return;
    }
    page.section("Limits");
    let columns = [
        Column::text("limit"),
        Column::text("allows"),
        Column::number("refused"),
        Column::number("share of checks"),
        Column::roomy("shadow-refused"),
    ];
    let rows = limits.iter().enumerate().map(|(place, limit)| {
        let name = words(limit, "name");
        let refused = counts("refused_by", name);
        let is_shadow = limit["shadow"] == true;
        let class =
            if is_shadow { "shadow".to_owned() } else { format!("limit-{}", place % COLOURS) };
        vec![
            Part::Swatch(class, name, is_shadow.then_some("shadow")),
            Part::Text(words(limit, "words")),
            Part::Number(refused),
            Part::Share(refused, checks),
            Part::Number(counts("shadow_refused_by", name)),
        ]
    });
    page.rows("", &columns, rows);
}

pub(super) fn clients(page: &mut Page, report: &Value, times: Times) {
    let clients = list(report, "top_clients");
    if clients.clone().next().is_none() {
        return;
    }
    page.section("Clients");
    page.explain("Open a client to see when it came, what it asked for and with which program.");
    if clients
        .clone()
        .all(|client| number(client, "refused") + number(client, "shadow_refused") == 0)
    {
        return busiest(page, report, times);
    }
    let is_in_shadow = clients.clone().any(|client| number(client, "shadow_refused") > 0);
    let mut columns = vec![Column::text("client"), Column::number("refused")];
    if is_in_shadow {
        columns.push(Column::number("shadow-refused"));
    }
    columns.extend([
        Column::number("of checks"),
        Column::roomy("share"),
        Column::roomy("first refused"),
        Column::roomy("last refused"),
        Column::roomy("longest wait"),
        Column::roomy("over time"),
    ]);
    let rows = clients.map(|client| {
        let (checks, refused) = (number(client, "checks"), number(client, "refused"));
        let mut row = vec![Part::Key(words(client, "key")), Part::Number(refused)];
        if is_in_shadow {
            row.push(Part::Number(number(client, "shadow_refused")));
        }
        row.extend([
            Part::Number(checks),
            Part::Share(refused, checks),
            Part::Time(times, client["first_refused_us"].as_u64()),
            Part::Time(times, client["last_refused_us"].as_u64()),
            if refused > 0 {
                Part::Wait(client["longest_retry_after_us"].as_u64())
            } else {
                Part::Text("–")
            },
            Part::Spark,
        ]);
        row
    });
    page.rows("id=\"clients\"", &columns, rows);
}

/// Clients of which none was refused: nothing about refusals.
fn busiest(page: &mut Page, report: &Value, times: Times) {
    let columns = [
        Column::text("client"),
        Column::number("checks"),
        Column::number("share of checks"),
        Column::roomy("first"),
        Column::roomy("last"),
        Column::roomy("over time"),
    ];
    let all = number(report, "checks");
    let rows = list(report, "top_clients").map(|client| {
        let checks = number(client, "checks");
        vec![
            Part::Key(words(client, "key")),
            Part::Number(checks),
            Part::Share(checks, all),
            Part::Time(times, client["first_us"].as_u64()),
            Part::Time(times, client["last_us"].as_u64()),
            Part::Spark,
        ]
    });
    page.rows("id=\"clients\"", &columns, rows);
}

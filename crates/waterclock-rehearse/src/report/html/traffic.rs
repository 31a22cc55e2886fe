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
    let columns: Vec<Column<'_>> = columns.map(Column::number).into();
    let rows = bins.chunks(bins.len().div_ceil(MOST_ROWS)).map(|some| {
        let sum = |field: &str| some.iter().map(|bin| number(bin, field)).sum::<u64>();
        let (offered, allowed) = (sum("offered"), sum("allowed"));
        let refused = offered.saturating_sub(allowed);
        vec![
            Part::Time(times, some[0]["t_us"].as_u64()),
            Part::Number(offered),
            Part::Number(allowed),
            Part::Number(refused),
            Part::Share(refused, offered),
        ]
    });
    page.rows("class=\"plain\"", &columns, rows);
    page.end_fold();
}

/// How many colours there are for limits.
const COLOURS: usize = 6;

pub(super) fn limits(page: &mut Page, report: &Value) {
    let limits: Vec<&Value> = list(report, "limits").collect();
    let counts = |field: &str, name: &str| report[field][name].as_u64().unwrap_or(0);
    let checks = number(report, "checks");
    if limits.is_empty() {
        return by_name(page, report, checks);
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

/// The limits of a report that only names them.
fn by_name(page: &mut Page, report: &Value, checks: u64) {
    for (title, field) in
        [("Refused by limit", "refused_by"), ("Shadow-refused by limit", "shadow_refused_by")]
    {
        let counts = report[field].as_object().into_iter().flatten();
        let counts: Vec<(&String, u64)> =
            counts.map(|(name, count)| (name, count.as_u64().unwrap_or(0))).collect();
        if counts.iter().all(|(_, count)| *count == 0) {
            continue;
        }
        page.section(title);
        let columns =
            [Column::text("limit"), Column::number("refused"), Column::number("share of checks")];
        let row = |(name, count): &(&'_ String, u64)| {
            vec![Part::Words((*name).clone()), Part::Number(*count), Part::Share(*count, checks)]
        };
        page.rows("", &columns, counts.iter().map(row));
    }
}

/// Clients as the report lists them: in detail, or only those that were refused most and those that asked most.
pub(super) fn clients(page: &mut Page, report: &Value, times: Times) {
    if report["top_clients"].as_array().is_some_and(|all| !all.is_empty()) {
        page.section("Clients");
        page.explain(
            "Open a client to see when it came, what it asked for and with which program.",
        );
        return client_rows(page, "id=\"clients\"", list(report, "top_clients"), times);
    }
    for (title, field) in [
        ("Most refused keys", "most_refused_keys"),
        ("Most shadow-refused keys", "most_shadow_refused_keys"),
        ("Busiest keys", "busiest_keys"),
    ] {
        if list(report, field).next().is_some() {
            page.section(title);
            client_rows(page, "", list(report, field), times);
        }
    }
}

fn client_rows<'v>(
    page: &mut Page,
    attributes: &str,
    clients: impl Iterator<Item = &'v Value> + Clone,
    times: Times,
) {
    let is_in_shadow = clients.clone().any(|client| number(client, "shadow_refused") > 0);
    let has_bins = clients.clone().any(|client| client["bins"].is_array());
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
    ]);
    if has_bins {
        columns.push(Column::roomy("over time"));
    }
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
        ]);
        if has_bins {
            row.push(Part::Spark);
        }
        row
    });
    page.rows(attributes, &columns, rows);
}

//! The page of a report, from what the report says to programs. What is not there has no section.

use serde_json::Value;

use super::units::{Table, share};
use super::{counted, grouped};
use crate::page::{Column, Page, Part, REPORT_SCRIPT};
use crate::picture::Times;

/// What a page shows beside the report for programs.
#[derive(Default)]
pub(super) struct Beside {
    /// The policy in plain English.
    pub(super) policy: String,
    pub(super) smallest: Option<Table>,
    /// What the smallest limits are based on.
    pub(super) extent: String,
}

/// A page that needs no other file.
pub(super) fn page(report: &Value, beside: &Beside) -> String {
    let checks = number(report, "checks");
    let until_us = report["until_us"].as_u64();
    let times = Times::of(until_us.unwrap_or(0));
    let lead = [
        Part::Key(words(report, "source")),
        Part::Words(format!(", under policy {}: ", words(report, "policy"))),
        Part::Words(format!("{} checks", grouped(checks))),
        Part::Text(if until_us.is_some() { " from " } else { "." }),
        Part::Time(times, report["from_us"].as_u64()),
        Part::Text(" to "),
        Part::Time(times, until_us),
    ];
    let lead = if until_us.is_some() { &lead[..] } else { &lead[..4] };
    let mut page = Page::new("Replay of recorded traffic", &headline(report), lead);
    totals(&mut page, report);
    timeline(&mut page, report, times);
    limits(&mut page, report);
    advice(&mut page, report);
    curves(&mut page, report);
    clients(&mut page, report, times);
    if let Some(smallest) = &beside.smallest {
        page.section("The smallest limits that would have refused");
        page.table(smallest);
        if !beside.extent.is_empty() {
            page.paragraph(&format!("Found{}.", beside.extent));
        }
    }
    if !beside.policy.is_empty() {
        page.section("The policy");
        page.verbatim(&beside.policy);
    }
    let notes: Vec<&str> = list(report, "remarks").filter_map(|note| note["message"].as_str()).collect();
    if !notes.is_empty() {
        page.section("Notes about the traffic");
        notes.into_iter().for_each(|note| page.paragraph(note));
    }
    page.script(REPORT_SCRIPT, report, times);
    page.finish()
}

pub(crate) fn number(of: &Value, field: &str) -> u64 {
    of[field].as_u64().unwrap_or(0)
}

pub(crate) fn words<'v>(of: &'v Value, field: &str) -> &'v str {
    of[field].as_str().unwrap_or_default()
}

pub(crate) fn list<'v>(of: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> + Clone {
    of[field].as_array().into_iter().flatten()
}


/// The report's own, or the same in fewer words.
fn headline(report: &Value) -> String {
    if let Some(headline) = report["headline"].as_str() {
        return headline.to_owned();
    }
    let (checks, refused) = (number(report, "checks"), number(report, "refused"));
    let in_shadow = number(report, "shadow_refused");
    let keys = usize::try_from(number(report, "keys_refused")).unwrap_or(usize::MAX);
    match (checks, refused, in_shadow) {
        (0, ..) => "There was nothing to check".to_owned(),
        (_, 0, 0) => "Nothing refused".to_owned(),
        (_, 0, _) => format!("Nothing refused; {} shadow-refused", share(in_shadow, checks)),
        _ => format!(
            "{} refused; {} of {}",
            share(refused, checks),
            counted(keys, "client"),
            grouped(number(report, "keys"))
        ),
    }
}

fn totals(page: &mut Page, report: &Value) {
    let checks = number(report, "checks");
    let of_checks = |count: u64| format!("{} of checks", share(count, checks));
    let mut tiles = vec![("", "Checks", grouped(checks), String::new())];
    for (class, word, field) in [
        ("good", "Allowed", "allowed"),
        ("good", "Allowed in part", "in_part"),
        ("bad", "Refused", "refused"),
        ("odd", "Shadow-refused", "shadow_refused"),
    ] {
        let count = number(report, field);
        if count > 0 || matches!(field, "allowed" | "refused") {
            tiles.push((class, word, grouped(count), of_checks(count)));
        }
    }
    let about = if report["keys_are_estimates"] == true { "about " } else { "" };
    let (keys, refused) = (number(report, "keys"), number(report, "keys_refused"));
    let of_keys = format!("{} of {about}{}", share(refused, keys), grouped(keys));
    tiles.push(("", "Clients refused", format!("{about}{}", grouped(refused)), of_keys));
    page.section("What would have happened");
    page.tiles(&tiles);
    for (field, words) in [
        ("blocked", "refused because their key is blocked"),
        ("refused_by_limits_of_keys", "refused by custom limits of single keys"),
    ] {
        let count = number(report, field);
        if count > 0 {
            page.paragraph(&format!("{} checks {words}.", grouped(count)));
        }
    }
}

/// How many rows the table of the timeline has at most.
const MOST_ROWS: usize = 24;

/// The picture that the script draws, and a table for readers who cannot see it.
fn timeline(page: &mut Page, report: &Value, times: Times) {
    let bins: Vec<&Value> = list(&report["timeline"], "bins").collect();
    if bins.is_empty() {
        return;
    }
    page.section("Over time");
    page.drawn("id=\"timeline\"");
    page.fold("The same as a table");
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

fn limits(page: &mut Page, report: &Value) {
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
            vec![
                Part::Words((*name).clone()),
                Part::Number(*count),
                Part::Share(*count, checks),
            ]
        };
        page.rows("", &columns, counts.iter().map(row));
    }
}

fn advice(page: &mut Page, report: &Value) {
    let all: Vec<&Value> = list(report, "advice").collect();
    if all.is_empty() {
        return;
    }
    page.section("Advice");
    for advice in all {
        page.group("advice", |page| one_advice(page, advice));
    }
}

fn one_advice(page: &mut Page, advice: &Value) {
    page.heading(words(advice, "limit"));
    page.statement(words(advice, "sentence"));
    let outliers = &advice["outliers"];
    if number(outliers, "clients") > 0 {
        let mut text = words(outliers, "rule").to_owned();
        if let Some(key) = outliers["largest"]["key"].as_str() {
            let needs = words(&outliers["largest"], "needs");
            text.push_str(&format!(" The largest, {key}, would need {needs}."));
        }
        page.explain(&text);
    }
    let percentiles: Vec<&Value> = list(advice, "percentiles").collect();
    if percentiles.is_empty() {
        return;
    }
    let columns = [
        Column::text("clients never refused"),
        Column::text("at"),
        Column::roomy_text("in the configuration"),
    ];
    let rows = percentiles.iter().map(|line| {
        let percent = line["clients_percent"].as_f64().unwrap_or(0.0);
        let is_all = percent >= 100.0 && number(outliers, "clients") > 0;
        let percent = format!("{percent} %{}", if is_all { " without the outliers" } else { "" });
        vec![
            Part::Words(percent),
            Part::Text(words(line, "words")),
            Part::Code(words(line, "toml")),
        ]
    });
    page.rows("", &columns, rows);
}

/// The curves that the script draws, and tables for readers who cannot see them.
fn curves(page: &mut Page, report: &Value) {
    let has_points = |curve: &&Value| curve["points"].as_array().is_some_and(|all| !all.is_empty());
    if !list(report, "curves").any(|curve| has_points(&curve)) {
        return;
    }
    page.section("What another limit would have refused");
    for (place, curve) in list(report, "curves").enumerate().filter(|(_, curve)| has_points(curve)) {
        page.group("curve", |page| {
            page.drawn(&format!("data-curve=\"{place}\""));
            page.fold(&format!("Numbers for {}", words(curve, "limit")));
            let columns = [
                Column::text("limit"),
                Column::number("clients refused"),
                Column::number("share"),
                Column::number("checks refused"),
                Column::number("share"),
            ];
            let (clients, checks) = (number(curve, "clients"), number(curve, "checks"));
            let current = curve["current"].as_u64();
            let rows = list(curve, "points").zip(0_u64..).map(|(point, place)| {
                let today = if current == Some(place) { " (today)" } else { "" };
                let of = |field: &str| number(point, field);
                vec![
                    Part::Words(format!("{}{today}", words(point, "words"))),
                    Part::Number(of("clients_refused")),
                    Part::Share(of("clients_refused"), clients),
                    Part::Number(of("checks_refused")),
                    Part::Share(of("checks_refused"), checks),
                ]
            });
            page.rows("class=\"plain\"", &columns, rows);
            page.end_fold();
        });
    }
}

/// Clients as the report lists them: in detail, or only those that were refused most and those that asked most.
fn clients(page: &mut Page, report: &Value, times: Times) {
    if report["top_clients"].as_array().is_some_and(|all| !all.is_empty()) {
        page.section("Clients");
        page.explain("Open a client to see when it came, what it asked for and with which program.");
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

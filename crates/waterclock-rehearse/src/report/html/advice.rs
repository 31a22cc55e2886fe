//! What the limits could be, and what others would have refused.

use serde_json::Value;

use super::{list, number, sentence_case, words};
use crate::page::{Column, Page, Part};
use crate::report::counted;

pub(super) fn advice(page: &mut Page, report: &Value, extent: &str) {
    let all: Vec<&Value> = list(report, "advice").collect();
    if all.is_empty() {
        return;
    }
    page.section("Advice");
    let has_outliers = |advice: &&&Value| number(&advice["outliers"], "clients") > 0;
    let outliers = all.iter().find(has_outliers).map(|advice| &advice["outliers"]);
    if let Some(policy) = report["toml"].as_str() {
        let but = if outliers.is_some() { " but the outliers" } else { "" };
        let within = if list(report, "limits").count() > 1 { "each limit alone" } else { "it" };
        page.heading(&format!("To start with: 99.9 % of clients{but} stay within {within}"));
        page.lines_for_copying(policy);
    }
    for advice in &all {
        page.group("advice", |page| one_advice(page, advice));
    }
    if let Some(outliers) = outliers {
        page.explain(&format!("{}.", sentence_case(words(outliers, "rule"))));
    }
    if !extent.is_empty() {
        page.explain(&format!("{}.", sentence_case(extent.trim_start_matches(", "))));
    }
}

fn one_advice(page: &mut Page, advice: &Value) {
    page.heading(words(advice, "limit"));
    page.statement(&format!("{}.", sentence_case(words(advice, "sentence"))));
    let outliers = &advice["outliers"];
    if number(outliers, "clients") > 0 {
        let clients = usize::try_from(number(outliers, "clients")).unwrap_or(usize::MAX);
        let mut text = format!("{} set aside", sentence_case(&counted(clients, "outlier")));
        if let Some(key) = outliers["largest"]["key"].as_str() {
            let needs = words(&outliers["largest"], "needs");
            text.push_str(&format!("; the largest, {key}, needs {needs}"));
        }
        page.explain(&format!("{text}."));
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
        let has_outliers = number(outliers, "clients") > 0;
        let percent = format!("{percent} %{}", if has_outliers { " of the others" } else { "" });
        vec![
            Part::Words(percent),
            Part::Text(words(line, "words")),
            Part::Code(words(line, "toml")),
        ]
    });
    page.rows("", &columns, rows);
}

/// The curves that the script draws, and tables for readers who cannot see them.
pub(super) fn curves(page: &mut Page, report: &Value) {
    let has_points = |curve: &&Value| curve["points"].as_array().is_some_and(|all| !all.is_empty());
    if !list(report, "curves").any(|curve| has_points(&curve)) {
        return;
    }
    page.section("What another limit would have refused");
    for (place, curve) in list(report, "curves").enumerate().filter(|(_, curve)| has_points(curve))
    {
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
                let now = if current == Some(place) { " (now)" } else { "" };
                let of = |field: &str| number(point, field);
                vec![
                    Part::Words(format!("{}{now}", words(point, "words"))),
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

//! The page of a report, from what the report says to programs. What is not there has no section.

mod advice;
mod traffic;

pub(crate) use self::traffic::over_time;

use serde_json::Value;

use self::advice::{advice, curves};
use self::traffic::{clients, limits, timeline};
use super::grouped;
use super::units::share;
use crate::page::{Page, Part, REPORT_SCRIPT};
use crate::picture::Times;

/// The page of a report that was kept as JSON ([`Report::json`](super::Report::json)), which needs no other file.
#[must_use]
pub fn page(report: &Value) -> String {
    page_with(report, "", "")
}

/// With the policy in plain English, and what the advice is based on if not on all checks.
pub(super) fn page_with(report: &Value, policy: &str, extent: &str) -> String {
    let checks = number(report, "checks");
    let until_us = report["until_us"].as_u64();
    let times = Times::of(until_us.unwrap_or(0));
    let lead = [
        Part::Key(words(report, "source")),
        Part::Words(under(report)),
        Part::Words(format!("{} checks", grouped(checks))),
        Part::Text(if until_us.is_some() { " from " } else { "." }),
        Part::Time(times, report["from_us"].as_u64()),
        Part::Text(" to "),
        Part::Time(times, until_us),
    ];
    let lead = if until_us.is_some() { &lead[..] } else { &lead[..4] };
    let headline = sentence_case(words(report, "headline"));
    let mut page = Page::new("Replay of recorded traffic", &headline, lead);
    if let Some(change) = report["suggestion"].as_str() {
        page.below_headline(&format!("What to change: {change}."));
    }
    let has_limits = list(report, "limits").next().is_some();
    if has_limits {
        totals(&mut page, report);
        timeline(&mut page, report, times);
        limits(&mut page, report);
    }
    advice(&mut page, report, extent);
    curves(&mut page, report);
    if !has_limits {
        // What limits could be is why it was asked.
        totals(&mut page, report);
        timeline(&mut page, report, times);
    }
    clients(&mut page, report, times);
    if !policy.is_empty() && has_limits {
        page.section("The policy");
        page.verbatim(policy);
    }
    let notes: Vec<&str> =
        list(report, "remarks").filter_map(|note| note["message"].as_str()).collect();
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

/// `, under policy web (30/min, capacity 5; 600/h): `. Without limits there was none.
fn under(report: &Value) -> String {
    let limits: Vec<&str> = list(report, "limits").map(|limit| words(limit, "words")).collect();
    match limits.is_empty() {
        true => ": ".to_owned(),
        false => format!(", under policy {} ({}): ", words(report, "policy"), limits.join("; ")),
    }
}

/// With a capital at the beginning.
fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn totals(page: &mut Page, report: &Value) {
    let checks = number(report, "checks");
    let of_checks = |count: u64| format!("{} of checks", share(count, checks));
    let mut tiles = vec![("", "Checks", grouped(checks), String::new())];
    let about = if report["keys_are_estimates"] == true { "about " } else { "" };
    let (keys, refused) = (number(report, "keys"), number(report, "keys_refused"));
    if list(report, "limits").next().is_none() && number(report, "refused") == 0 {
        tiles.push(("", "Clients", format!("{about}{}", grouped(keys)), String::new()));
        page.section("The traffic");
        return page.tiles(&tiles);
    }
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

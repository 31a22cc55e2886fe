//! A simulation in numbers, for people and for programs.

use std::io::{self, Write};

use comfy_table::{Cell, Color};
use serde_json::{Value, json};
use waterclock_config::{LimitSpec, Micros};

use super::{Rehearsal, Simulation, Subject};
use crate::report::{Align, by_limit, table};
use waterclock_config::english::most_within;

impl Simulation {
    pub(super) fn write_summary(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.lead)?;
        let row = |line: [String; 7]| {
            let is_refused = line[3] != "0";
            let cell = |(place, text): (usize, String)| match place {
                2 => Cell::new(text).fg(Color::Green),
                3 if is_refused => Cell::new(text).fg(Color::Red),
                _ => Cell::new(text),
            };
            line.into_iter().enumerate().map(cell).collect()
        };
        let align = |(place, name)| (name, if place == 0 { Align::Left } else { Align::Right });
        let columns = self.columns();
        let head: Vec<(&str, Align)> =
            columns.iter().map(String::as_str).enumerate().map(align).collect();
        table(&head, self.lines().map(row)).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        Ok(())
    }

    /// What each column says. The bound is what a limit promises not to exceed in the same time as the column
    /// before.
    pub(super) fn columns(&self) -> [String; 7] {
        let window = self.played.first().map_or(0, |(_, played)| played.most.window_us());
        let most = format!("most in any {}", Micros(window));
        ["limit", "requests", "admitted", "refused", "longest wait", &most, "bound"]
            .map(str::to_owned)
    }

    /// A line of text for each subject.
    pub(super) fn lines(&self) -> impl Iterator<Item = [String; 7]> {
        self.played.iter().map(|(subject, played)| {
            [
                subject.name.clone(),
                played.requests.to_string(),
                played.admitted.to_string(),
                played.refused().to_string(),
                played.longest_wait().map_or_else(|| "–".to_owned(), |wait| wait.to_string()),
                played.most.units().to_string(),
                bound(subject, played).map_or_else(|| "–".to_owned(), |bound| bound.to_string()),
            ]
        })
    }

    pub(super) fn json(&self) -> Value {
        let subjects: Vec<Value> =
            self.played.iter().map(|(subject, played)| of(subject, played)).collect();
        json!({ "arrivals": self.lead, "from_us": self.from_us, "until_us": self.until_us, "subjects": subjects })
    }
}

/// The most that any limit of it lets one key have in the window that was watched.
pub(super) fn bound(subject: &Subject, played: &Rehearsal) -> Option<u64> {
    let spec = &subject.spec;
    if played.has_tiers || spec.shadow || !spec.rollout.is_everybody() {
        return None;
    }
    let binds = |limit: &&LimitSpec| !limit.shadow && *limit.unit == *played.unit;
    let window = Micros(played.most.window_us());
    let limits = spec.limits.iter().filter(binds);
    limits.filter_map(|limit| most_within(limit, window, played.largest_cost)).min()
}

fn of(subject: &Subject, played: &Rehearsal) -> Value {
    let refusals: Vec<Value> = played
        .refusals
        .kept()
        .iter()
        .map(|refusal| json!({ "t_us": refusal.t_us, "key": refusal.key, "refused_by": refusal.by, "retry_after_us": refusal.wait_us }))
        .collect();
    json!({
        "name": subject.name,
        "requests": played.requests,
        "admitted": played.admitted,
        "in_part": played.in_part,
        "refused": played.refused(),
        "units": played.units,
        "retries": played.retries,
        "given_up": played.given_up,
        "refused_by": by_limit(&subject.spec.built, &played.refused_by),
        "longest_retry_after_us": played.longest_wait().and_then(|wait| wait.us()),
        "most": { "window_us": played.most.window_us(), "units": played.most.units(), "bound": bound(subject, played) },
        "timeline": played.timeline.json(),
        "refusals": refusals,
    })
}

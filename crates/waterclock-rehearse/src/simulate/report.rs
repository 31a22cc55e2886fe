//! A simulation in numbers and as a picture, for people and for programs.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{Cell, Color};
use serde_json::{Value, json};
use waterclock::Limit;
use waterclock_config::Micros;
use waterclock_config::english::describe;

use super::{Contender, Played, Simulation};
use crate::picture::{Page, Picture, Row, Times};
use crate::report::{Align, Table, by_limit, grouped};

impl Simulation {
    /// Writes a table of numbers with colours.
    pub fn write_summary(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.lead)?;
        self.table().write(out, "")
    }

    /// A row for each policy. The bound is what a limit never exceeds in the time span of the column before.
    fn table(&self) -> Table {
        let window = self.played.first().map_or(0, |(_, played)| played.most.window_us());
        let most = format!("most in any {}", Micros(window).in_words());
        let row = |(contender, played): &(Contender, Played)| {
            let or_dash = |text: Option<String>| Cell::new(text.unwrap_or_else(|| "–".to_owned()));
            let refused = Cell::new(grouped(played.refused()));
            [
                Cell::new(&contender.name),
                Cell::new(grouped(played.requests)),
                Cell::new(grouped(played.allowed)).fg(Color::Green),
                if played.refused() > 0 { refused.fg(Color::Red) } else { refused },
                or_dash(played.longest_wait().map(|wait| wait.to_string())),
                Cell::new(grouped(played.most.units())),
                or_dash(bound(contender, played).map(grouped)),
            ]
        };
        use Align::{Left, Right};
        let head = [
            ("limit", Left),
            ("requests", Right),
            ("allowed", Right),
            ("refused", Right),
            ("longest wait", Right),
            (most.as_str(), Right),
            ("bound", Right),
        ];
        Table::new(head, self.played.iter().map(row))
    }

    /// Everything for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let contenders: Vec<Value> =
            self.played.iter().map(|(contender, played)| json_of(contender, played)).collect();
        json!({ "arrivals": self.lead, "traffic": self.facts, "from_us": self.from_us, "until_us": self.until_us, "subjects": contenders })
    }
}

/// The most units that the policy lets one key have in the time span that was watched.
fn bound(contender: &Contender, played: &Played) -> Option<u64> {
    let policy = &contender.config;
    if played.has_tiers || policy.policy().is_shadow() || !policy.scope.rollout().is_everybody() {
        return None;
    }
    let binds = |limit: &&Limit| !limit.is_shadow() && *limit.unit() == *played.unit;
    let window = Duration::from_micros(played.most.window_us());
    let limits = policy.limits().iter().filter(binds);
    limits.filter_map(|limit| limit.most_within(window, played.largest_cost)).min()
}

fn json_of(contender: &Contender, played: &Played) -> Value {
    let refusals: Vec<Value> = played
        .refusals
        .kept()
        .iter()
        .map(|refusal| json!({ "t_us": refusal.t_us, "key": refusal.key, "refused_by": refusal.by, "retry_after_us": refusal.wait_us }))
        .collect();
    json!({
        "name": contender.name,
        "requests": played.requests,
        "allowed": played.allowed,
        "in_part": played.in_part,
        "refused": played.refused(),
        "units": played.units,
        "retries": played.retries,
        "given_up": played.given_up,
        "refused_by": by_limit(contender.config.policy(), &played.refused_by),
        "longest_retry_after_us": played.longest_wait().and_then(|wait| wait.us()),
        "most": { "window_us": played.most.window_us(), "units": played.most.units(), "bound": bound(contender, played) },
        "timeline": played.timeline.json(),
        "refusals": refusals,
    })
}

impl Simulation {
    /// The picture: a row over time for each policy.
    #[must_use]
    pub fn picture(&self) -> Picture {
        Picture {
            title: self.lead.clone(),
            times: Times::of(self.from_us),
            span_us: (self.from_us, self.until_us),
            level_of: Some(format!("what {} has left", self.watched)),
            rows: self.played.iter().map(|(contender, played)| row(contender, played)).collect(),
        }
    }

    /// A page with the picture and the numbers, which needs no other file.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = Page::new("What these limits do", &format!("{}.", self.lead));
        page.picture(&self.picture().svg());
        page.section("In numbers");
        page.table(&self.table());
        page.section("What each policy means");
        for (contender, _) in &self.played {
            page.verbatim(&describe(&contender.config));
        }
        page.finish()
    }
}

fn row(contender: &Contender, played: &Played) -> Row {
    let mut notes = vec![format!("{} of {} allowed", played.allowed, played.requests)];
    if let Some(bound) = bound(contender, played) {
        let (most, window) = (played.most.units(), Micros(played.most.window_us()).in_words());
        notes.push(format!("most in any {window}: {most} (bound {bound})"));
    }
    if let Some(wait) = played.longest_wait() {
        notes.push(format!("{} refused, longest wait {wait}", played.refused()));
    }
    Row {
        name: contender.name.clone(),
        notes,
        timeline: played.timeline.clone(),
        level: played.level.clone(),
        refusals: played.refusals.kept(),
    }
}

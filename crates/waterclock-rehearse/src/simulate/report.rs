//! A simulation in numbers and as a picture, for people and for programs.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{Cell, Color};
use serde_json::{Value, json};
use waterclock::Limit;
use waterclock_config::Micros;
use waterclock_config::english::describe;

use super::sentence::sentence;
use super::{Contender, Played, RetryAfter, Simulation};
use crate::page::{Page, Part};
use crate::picture::{Picture, Row, Times};
use crate::report::{Align, Table, by_limit, grouped, share};
use crate::terminal::{STRONG, styled};

impl Simulation {
    /// Writes a table of numbers with colours.
    pub fn write_summary(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.lead)?;
        self.table().write(out, "")?;
        for (contender, played) in &self.played {
            writeln!(out, "{}: {}", contender.name, sentence(contender, played))?;
        }
        if let Some((title, table)) = self.herds() {
            writeln!(out, "{}", styled(STRONG, title))?;
            table.write(out, " ")?;
        }
        Ok(())
    }

    /// What clients that retry do to each policy, when they honour `Retry-After` and when they ignore it.
    fn herds(&self) -> Option<(String, Table)> {
        let (other, others) = self.others.as_ref()?;
        let row = |contender: &Contender, after: RetryAfter, played: &Played| {
            let last = Micros(played.last_allowed_us.saturating_sub(self.from_us));
            [
                Cell::new(&contender.name),
                Cell::new(after.in_words()),
                Cell::new(grouped(played.requests)),
                Cell::new(grouped(played.allowed)).fg(Color::Green),
                Cell::new(grouped(played.given_up)).fg(Color::Red),
                Cell::new(grouped(played.timeline.most_offered())),
                Cell::new(last.rounded().in_words()),
            ]
        };
        let rows = self.played.iter().zip(others).flat_map(|((contender, played), blind)| {
            let both = [row(contender, self.retries.after, played), row(contender, *other, blind)];
            if self.retries.after == RetryAfter::Honour {
                both
            } else {
                let [ignored, honoured] = both;
                [honoured, ignored]
            }
        });
        let bin_us = self.played.first().map_or(0, |(_, played)| played.timeline.width_us());
        let busiest = format!("most in {}", Micros(bin_us).in_words());
        use Align::{Left, Right};
        let head = [
            ("limit", Left),
            ("clients", Left),
            ("attempts", Right),
            ("served", Right),
            ("gave up", Right),
            (busiest.as_str(), Right),
            ("last served after", Right),
        ];
        let times = if self.retries.most == 1 { "once" } else { "up to N times" };
        let times = times.replace('N', &grouped(u64::from(self.retries.most)));
        Some((format!("refused clients retry {times}"), Table::new(head, rows)))
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
        let mut json = json!({ "arrivals": self.lead, "traffic": self.facts, "from_us": self.from_us, "until_us": self.until_us, "subjects": contenders });
        if let Some((other, others)) = &self.others {
            let herd = |after: RetryAfter, played: &Played| {
                let backoff_us = match after {
                    RetryAfter::Honour => None,
                    RetryAfter::Ignore { backoff } => Some(backoff.0),
                };
                json!({ "attempts": played.requests, "allowed": played.allowed, "given_up": played.given_up, "most_in_a_bin": played.timeline.most_offered(), "bin_us": played.timeline.width_us(), "last_allowed_us": played.last_allowed_us, "backoff_us": backoff_us })
            };
            for (place, ((_, played), blind)) in self.played.iter().zip(others).enumerate() {
                let (mut honour, mut ignore) =
                    (herd(self.retries.after, played), herd(*other, blind));
                if self.retries.after != RetryAfter::Honour {
                    std::mem::swap(&mut honour, &mut ignore);
                }
                json["subjects"][place]["retry_after"] =
                    json!({ "honour": honour, "ignore": ignore });
            }
        }
        json
    }
}

/// The most units that the policy lets one key have in the time span that was watched.
pub(super) fn bound(contender: &Contender, played: &Played) -> Option<u64> {
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
        "shadow_refused": played.in_shadow,
        "shadow_refused_by": by_limit(contender.config.policy(), &played.shadow_refused_by),
        "sentence": sentence(contender, played),
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
        let mut page =
            Page::new("Simulation", &self.headline(), &[Part::Words(format!("{}.", self.lead))]);
        page.section("Over time");
        page.picture(&self.picture().svg());
        page.section("In numbers");
        page.table(&self.table());
        if let Some((title, table)) = self.herds() {
            page.section(&format!("With clients that come back: {title}"));
            page.table(&table);
        }
        page.section("What each policy means");
        for (contender, _) in &self.played {
            page.verbatim(&describe(&contender.config));
        }
        page.finish()
    }
}

impl Simulation {
    /// `10/s refuses 25.3 %, 10/s fixed-window 42.5 % of requests`; of many, the least and the most.
    fn headline(&self) -> String {
        let refused = |(contender, played): &(Contender, Played)| {
            format!("{} refuses {}", contender.name, share(played.refused(), played.requests))
        };
        // By shares, as retries make requests more.
        let part = |(_, played): &&(Contender, Played)| {
            u128::from(played.refused()) * u128::from(u64::MAX) / u128::from(played.requests.max(1))
        };
        let some: Vec<&(Contender, Played)> = match &*self.played {
            all if all.len() <= MOST_IN_HEADLINE => all.iter().collect(),
            all => {
                all.iter().min_by_key(part).into_iter().chain(all.iter().max_by_key(part)).collect()
            }
        };
        let words: Vec<String> = some.into_iter().map(refused).collect();
        format!("{} of requests", words.join(", "))
    }
}

/// More limits than this are not all named.
const MOST_IN_HEADLINE: usize = 3;

fn row(contender: &Contender, played: &Played) -> Row {
    Row {
        name: contender.name.clone(),
        says: sentence(contender, played),
        timeline: played.timeline.clone(),
        in_shadow: (played.in_shadow > 0).then(|| played.in_shadow_over_time.clone()),
        level: played.level.clone(),
        refusals: played.refusals.kept(),
    }
}

//! One row: what was offered and allowed, what was left, and each refusal with its advised wait.

use std::collections::BTreeMap;

use waterclock_config::Micros;

use super::axis::{Axis, Times};
use super::svg::Svg;
use super::{ASIDE, LEFT, PLOT};
use crate::report::LongestWait;
use crate::timeline::Timeline;

/// One policy, or one side of a comparison.
pub(crate) struct Row {
    pub(crate) name: String,
    /// A few short lines beside the row.
    pub(crate) notes: Vec<String>,
    pub(crate) timeline: Timeline,
    /// Which share of the limit was left, from 0 to 1, over time.
    pub(crate) level: Vec<(u64, f64)>,
    /// In the order of time; may be empty where there are too many to tell apart.
    pub(crate) refusals: Vec<Refusal>,
}

/// A refused check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) t_us: u64,
    pub(crate) key: String,
    /// The limits that refused.
    pub(crate) by: String,
    /// The advised wait; `None` is never.
    pub(crate) wait_us: Option<u64>,
}

/// How tall the parts of a row are.
const BARS: f64 = 56.0;
const STRIP: f64 = 22.0;
const GAP: f64 = 20.0;

/// What all rows share, so that they can be compared.
pub(super) struct Scales {
    most_offered: u64,
    /// `None` where nothing was refused.
    longest: Option<LongestWait>,
}

impl Scales {
    pub(super) fn of(rows: &[Row]) -> Scales {
        let refusals = rows.iter().flat_map(|row| &row.refusals);
        let longest = refusals.fold(None, |longest: Option<LongestWait>, refusal| {
            Some(longest.unwrap_or_default().and(refusal.wait_us))
        });
        Scales {
            most_offered: rows
                .iter()
                .map(|row| row.timeline.most_offered())
                .max()
                .unwrap_or(0)
                .max(1),
            longest,
        }
    }

    pub(super) fn row_height(&self) -> f64 {
        BARS + GAP + if self.longest.is_some() { STRIP } else { 0.0 }
    }

    /// What the dots mean, if there are any.
    pub(super) fn refusals(&self) -> Option<String> {
        let longest = self.longest?;
        let to = match (longest.in_time_us(), longest.is_never()) {
            (0, true) => "forever".to_owned(),
            (wait, true) => format!("to {}, or forever", Micros(wait).for_people()),
            (wait, false) => format!("to {}", Micros(wait).for_people()),
        };
        Some(format!("refused; the higher, the longer the advised wait ({to})"))
    }

    /// How long a wait is, from 0 to 1.
    fn wait(&self, wait_us: Option<u64>) -> f64 {
        let longest = self.longest.unwrap_or_default();
        match (wait_us, longest.in_time_us()) {
            (None, _) => 1.0,
            (Some(_), 0) => 0.0,
            (Some(wait), most) => {
                wait as f64 / most as f64 * if longest.is_never() { 0.8 } else { 1.0 }
            }
        }
    }
}

impl Row {
    pub(super) fn draw(&self, svg: &mut Svg, axis: &Axis, scales: &Scales, times: Times, top: f64) {
        let base = top + BARS;
        self.levels(svg, axis, base);
        self.bars(svg, axis, scales, base);
        svg.path("base", &format!("M{LEFT:.1} {base:.1}h{PLOT:.1}"));
        svg.text("end", LEFT - 6.0, top + 14.0, &scales.most_offered.to_string());
        svg.text("end", LEFT - 6.0, base, "0");
        self.dots(svg, axis, scales, times, base);
        svg.text("name", ASIDE, top + 20.0, &self.name);
        for (place, note) in self.notes.iter().enumerate() {
            svg.text("", ASIDE, top + 37.0 + 15.0 * place as f64, note);
        }
    }

    fn bars(&self, svg: &mut Svg, axis: &Axis, scales: &Scales, base: f64) {
        let height = |count: u64| (BARS - 6.0) * count as f64 / scales.most_offered as f64;
        let width_us = self.timeline.width_us();
        let (mut offered, mut allowed) = (String::new(), String::new());
        for (start, bin) in self.timeline.bins() {
            let (x, end) = (axis.x(start), axis.x(start + width_us));
            // A hair of paper between bars, as long as they are not hairs themselves.
            let width = (end - x - if end - x > 3.0 { 1.0 } else { 0.0 }).max(0.6);
            for (path, count) in [(&mut offered, bin.offered), (&mut allowed, bin.allowed)] {
                if count > 0 {
                    path.push_str(&format!(
                        "M{x:.1} {base:.1}v-{:.1}h{width:.1}V{base:.1}z",
                        height(count)
                    ));
                }
            }
        }
        svg.path("offered", &offered);
        svg.path("admitted", &allowed);
    }

    /// An area behind the bars: it says how full, they say how many.
    fn levels(&self, svg: &mut Svg, axis: &Axis, base: f64) {
        let mut line = String::new();
        let mut last: Option<String> = None;
        for (t_us, level) in &self.level {
            let (x, y) =
                (axis.x(*t_us), format!("{:.1}", base - (BARS - 6.0) * level.clamp(0.0, 1.0)));
            match &last {
                None => line.push_str(&format!("M{x:.1} {y}")),
                // What stays the same needs no points in between.
                Some(last) if *last == y => {}
                Some(_) => line.push_str(&format!("H{x:.1}V{y}")),
            }
            last = Some(y);
        }
        if let (Some((first, _)), Some((end, _))) = (self.level.first(), self.level.last()) {
            let (first, end) = (axis.x(*first), axis.x(*end));
            svg.path("left", &format!("{line}H{end:.1}V{base:.1}H{first:.1}z"));
            svg.path("level", &format!("{line}H{end:.1}"));
        }
    }

    /// One dot per place that can be told apart; its label says how many refusals it stands for.
    fn dots(&self, svg: &mut Svg, axis: &Axis, scales: &Scales, times: Times, base: f64) {
        let mut dots: BTreeMap<(i64, i64), (u64, &Refusal)> = BTreeMap::new();
        for refusal in &self.refusals {
            let y = base + STRIP - (STRIP - 7.0) * scales.wait(refusal.wait_us);
            #[allow(clippy::cast_possible_truncation, reason = "places on a picture are small")]
            let place = ((axis.x(refusal.t_us) * 2.0).round() as i64, (y * 2.0).round() as i64);
            dots.entry(place).or_insert((0, refusal)).0 += 1;
        }
        for ((x, y), (count, first)) in dots {
            let at = times.show(first.t_us);
            let wait = first.wait_us.map_or_else(
                || "never".to_owned(),
                |wait| format!("in {}", Micros(wait).for_people()),
            );
            let more =
                if count > 1 { format!(" (and {} more here)", count - 1) } else { String::new() };
            let label = format!("{at}: {} refused by {}, retry {wait}{more}", first.key, first.by);
            svg.labelled_circle("refused", x as f64 / 2.0, y as f64 / 2.0, &label);
        }
    }
}

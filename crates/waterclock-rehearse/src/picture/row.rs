//! One lane: how many requests were allowed and refused over time, with a scale, and below it what was left.

use std::collections::BTreeMap;

use waterclock_config::Micros;

use super::axis::{Axis, Times};
use super::svg::Svg;
use super::{LEFT, PLOT};
use crate::report::grouped;
use crate::timeline::Timeline;

/// One policy, or one side of a comparison.
pub(crate) struct Row {
    pub(crate) name: String,
    /// What the lane shows, in words.
    pub(crate) says: String,
    pub(crate) timeline: Timeline,
    /// The same requests, where those that only a shadow limit would refuse are not allowed.
    pub(crate) in_shadow: Option<Timeline>,
    /// Which share of the limit was left, from 0 to 1, over time.
    pub(crate) level: Vec<(u64, f64)>,
    /// In the order of time; some of them, where there are many.
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

/// How tall the parts of a lane are.
const BARS: f64 = 96.0;
const STRIP: f64 = 24.0;
const LINE: f64 = 16.0;
const GAP: f64 = 22.0;
/// How many characters of a sentence fit into a line.
const LINE_LENGTH: usize = 132;
/// Refusals that a tooltip names.
const NAMED: usize = 5;

/// The scale of all lanes, so that they can be compared.
pub(super) struct Scale {
    top: u64,
    step: u64,
}

impl Scale {
    pub(super) fn of(rows: &[Row]) -> Scale {
        let most = rows.iter().map(|row| row.timeline.most_offered()).max().unwrap_or(0).max(1);
        let step = round_step(most);
        Scale { top: most.div_ceil(step) * step, step }
    }
}

/// 1, 2 or 5 times a power of ten, so that two to four steps reach the top.
fn round_step(most: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for digit in [1, 2, 5] {
            let step = power.saturating_mul(digit);
            if most.div_ceil(step) <= 4 {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Sentences in lines: as many of them in one as there is room for. One that is longer is broken into lines of about the
/// same length, so that no word is left alone in the last.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for sentence in text.split_inclusive(". ") {
        let room =
            |line: &&mut String| line.chars().count() + sentence.chars().count() <= LINE_LENGTH;
        match lines.last_mut().filter(room) {
            Some(line) => line.push_str(sentence),
            None => lines.extend(broken_evenly(sentence)),
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

fn broken_evenly(text: &str) -> Vec<String> {
    let least = broken(text, LINE_LENGTH).len();
    let even = (1..=LINE_LENGTH).find(|length| broken(text, *length).len() <= least);
    broken(text, even.unwrap_or(LINE_LENGTH))
}

/// Lines of at most so many characters, broken at spaces.
fn broken(text: &str, length: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().filter(|line| {
            line.is_empty() || line.chars().count() + 1 + word.chars().count() <= length
        });
        match last {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => *line = format!("{line} {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

impl Row {
    pub(super) fn height(&self) -> f64 {
        let strip = if self.level.is_empty() { 0.0 } else { STRIP + 8.0 };
        LINE * (lines(&self.says).len() as f64 + 1.0) + 10.0 + BARS + strip + GAP
    }

    pub(super) fn draw(&self, svg: &mut Svg, axis: &Axis, scale: &Scale, times: Times, top: f64) {
        svg.text("name", LEFT, top + 12.0, &self.name);
        let mut y = top + 12.0;
        for line in lines(&self.says) {
            y += LINE;
            svg.text("", LEFT, y, &line);
        }
        let base = y + 14.0 + BARS;
        for count in (0..=scale.top / scale.step).map(|number| number * scale.step) {
            let y = base - BARS * count as f64 / scale.top as f64;
            let class = if count == 0 { "base" } else { "grid" };
            svg.path(class, &format!("M{LEFT:.1} {y:.1}h{PLOT:.1}"));
            svg.text("end", LEFT - 6.0, y + 4.0, &grouped(count));
        }
        self.bars(svg, axis, scale, base);
        if !self.level.is_empty() {
            let floor = base + 8.0 + STRIP;
            self.levels(svg, axis, floor);
            svg.path("base", &format!("M{LEFT:.1} {floor:.1}h{PLOT:.1}"));
            svg.text("end", LEFT - 6.0, base + 18.0, "100 %");
            svg.text("end", LEFT - 6.0, floor + 2.0, "0 %");
        }
        self.labels(svg, axis, times, base);
    }

    /// Allowed at the bottom, above it what only shadow limits would refuse, and refused at the top.
    fn bars(&self, svg: &mut Svg, axis: &Axis, scale: &Scale, base: f64) {
        let height = |count: u64| BARS * count as f64 / scale.top as f64;
        let width_us = self.timeline.width_us();
        let mut shadow = self.in_shadow.iter().flat_map(Timeline::bins);
        let (mut allowed, mut in_shadow, mut refused) =
            (String::new(), String::new(), String::new());
        for (start, bin) in self.timeline.bins() {
            let (x, end) = (axis.x(start), axis.x(start + width_us));
            // A hair of paper between bars, as long as they are not hairs themselves.
            let width = (end - x - if end - x > 3.0 { 1.0 } else { 0.0 }).max(0.6);
            let shadowed = shadow.next().map_or(0, |(_, bin)| bin.offered - bin.allowed);
            let mut y = base;
            for (path, count) in [
                (&mut allowed, bin.allowed - shadowed.min(bin.allowed)),
                (&mut in_shadow, shadowed),
                (&mut refused, bin.offered - bin.allowed),
            ] {
                if count > 0 {
                    let tall = height(count);
                    path.push_str(&format!("M{x:.1} {y:.1}v-{tall:.1}h{width:.1}V{y:.1}z"));
                    y -= tall;
                }
            }
        }
        svg.path("admitted", &allowed);
        if !in_shadow.is_empty() {
            svg.path("in-shadow", &in_shadow);
        }
        svg.path("refused", &refused);
    }

    /// How full the limit is, as an area.
    fn levels(&self, svg: &mut Svg, axis: &Axis, base: f64) {
        let mut line = String::new();
        let mut last: Option<String> = None;
        for (t_us, level) in &self.level {
            let (x, y) = (axis.x(*t_us), format!("{:.1}", base - STRIP * level.clamp(0.0, 1.0)));
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

    /// A tooltip over each bar: its numbers, and its first refusals with their advised waits.
    fn labels(&self, svg: &mut Svg, axis: &Axis, times: Times, base: f64) {
        let width_us = self.timeline.width_us();
        let mut refusals: BTreeMap<u64, Vec<&Refusal>> = BTreeMap::new();
        for refusal in &self.refusals {
            refusals.entry(refusal.t_us / width_us * width_us).or_default().push(refusal);
        }
        for (start, bin) in self.timeline.bins().filter(|(_, bin)| bin.offered > 0) {
            let (x, end) = (axis.x(start), axis.x(start + width_us));
            let mut label = format!(
                "{}: {} offered, {} allowed, {} refused",
                times.show(start),
                grouped(bin.offered),
                grouped(bin.allowed),
                grouped(bin.offered - bin.allowed)
            );
            for refusal in refusals.get(&start).into_iter().flatten().take(NAMED) {
                let wait = refusal.wait_us.map_or_else(
                    || "never".to_owned(),
                    |wait| format!("in {}", Micros(wait).for_people()),
                );
                label.push_str(&format!(
                    "; {} refused by {}, retry {wait}",
                    refusal.key, refusal.by
                ));
            }
            svg.labelled_rect("hover", x, base - BARS, end - x, BARS, &label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round() {
        for (most, step) in [(1, 1), (4, 1), (5, 2), (8, 2), (17, 5), (23, 10), (1_900, 500)] {
            assert_eq!(round_step(most), step, "{most}");
        }
        assert!(round_step(u64::MAX) > 1 << 60);
    }

    #[test]
    fn sentences_break_at_spaces() {
        let text = "word ".repeat(60);
        let broken = lines(text.trim());
        assert!(broken.len() == 3 && broken.iter().all(|line| line.chars().count() <= LINE_LENGTH));
        assert_eq!(broken.join(" "), text.trim());
        let lengths: Vec<usize> = broken.iter().map(|line| line.chars().count()).collect();
        assert_eq!(lengths, [99, 99, 99], "no orphan");
        assert_eq!(lines("short"), ["short"]);
        let (one, two) = ("one ".repeat(20) + "end.", "two ".repeat(20) + "end.");
        assert_eq!(lines(&format!("{one} {two}")), [&*one, &*two]);
        assert_eq!(lines("One. Two."), ["One. Two."]);
        assert_eq!(lines(&"x".repeat(500)).len(), 1);
    }
}

//! Pictures: rows over one axis of time, as SVG that needs no other file.

mod axis;
mod row;
mod svg;

pub(crate) use self::axis::Times;
pub(crate) use self::row::{Refusal, Row};
pub(crate) use self::svg::PICTURE_STYLE;

use self::axis::Axis;
use self::row::Scale;
use self::svg::Svg;
use waterclock_config::Micros;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 56.0;
const PLOT: f64 = 880.0;
const HEAD: f64 = 72.0;
const FOOT: f64 = 34.0;

/// A picture of checks over time.
pub struct Picture {
    /// One line that says what it shows.
    pub(crate) title: String,
    /// How instants are written.
    pub(crate) times: Times,
    /// From when to when, in microseconds.
    pub(crate) span_us: (u64, u64),
    /// The label of the level, where one is drawn.
    pub(crate) level_of: Option<String>,
    /// From top to bottom.
    pub(crate) rows: Vec<Row>,
}

impl Picture {
    /// The picture as SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        let scale = Scale::of(&self.rows);
        let axis = Axis::new(self.span_us, LEFT, PLOT);
        let height = HEAD + self.rows.iter().map(Row::height).sum::<f64>() + FOOT;
        let mut svg = Svg::new(WIDTH, height, &self.title);
        svg.text("title", LEFT, 28.0, &self.title);
        self.legend(&mut svg);
        for (x, label) in axis.ticks(self.times) {
            svg.path("grid", &format!("M{x:.1} {HEAD:.1}V{:.1}", height - FOOT));
            svg.text("middle", x, height - FOOT + 16.0, &label);
        }
        if self.times == Times::Utc {
            svg.text("end", LEFT + PLOT, height - 4.0, "times are UTC");
        }
        let mut top = HEAD;
        for row in &self.rows {
            row.draw(&mut svg, &axis, &scale, self.times, top);
            top += row.height();
        }
        svg.finish()
    }

    /// What the colours mean, with units; only those that are used.
    fn legend(&self, svg: &mut Svg) {
        let bin_us = self.rows.first().map_or(0, |row| row.timeline.width_us());
        let per = format!("requests per {}:", Micros(bin_us).in_words());
        let mut entries = vec![("", &*per), ("admitted", "allowed"), ("refused", "refused")];
        if self.rows.iter().any(|row| row.in_shadow.is_some()) {
            entries.push(("in-shadow", "shadow-refused"));
        }
        if let Some(level_of) = &self.level_of {
            entries.push(("level", level_of));
        }
        let mut x = LEFT;
        for (class, words) in entries {
            match class {
                "" => x -= 20.0,
                "level" => {
                    svg.rect("left", x, 42.0, 14.0, 10.0);
                    svg.path("level", &format!("M{x:.1} 42h14"));
                }
                _ => svg.rect(class, x, 42.0, 14.0, 10.0),
            }
            svg.text("", x + 20.0, 51.0, words);
            x += 36.0 + words.chars().count() as f64 * 6.3;
        }
    }
}

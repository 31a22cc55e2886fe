//! Pictures: rows over one axis of time, as SVG that needs no other file.

mod axis;
mod row;
mod svg;

pub(crate) use self::axis::Times;
pub(crate) use self::row::{Refusal, Row};
pub(crate) use self::svg::Page;

use self::axis::Axis;
use self::row::Scales;
use self::svg::Svg;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 48.0;
const PLOT: f64 = 640.0;
/// The left edge of a row's name and numbers.
const ASIDE: f64 = LEFT + PLOT + 24.0;
const HEAD: f64 = 64.0;
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
        let scales = Scales::of(&self.rows);
        let axis = Axis::new(self.span_us, LEFT, PLOT);
        let height = HEAD + scales.row_height() * self.rows.len() as f64 + FOOT;
        let mut svg = Svg::new(WIDTH, height, &self.title);
        svg.text("title", LEFT, 28.0, &self.title);
        self.legend(&mut svg, &scales);
        for (x, label) in axis.ticks(self.times) {
            svg.path("grid", &format!("M{x:.1} {HEAD:.1}V{:.1}", height - FOOT));
            svg.text("middle", x, height - FOOT + 16.0, &label);
        }
        if self.times == Times::Utc {
            svg.text("end", LEFT + PLOT, height - 4.0, "times are UTC");
        }
        for (place, row) in self.rows.iter().enumerate() {
            let top = HEAD + scales.row_height() * place as f64;
            row.draw(&mut svg, &axis, &scales, self.times, top);
        }
        svg.finish()
    }

    /// What the colours mean; only those that are used.
    fn legend(&self, svg: &mut Svg, scales: &Scales) {
        let mut entries = vec![("offered", "offered"), ("admitted", "allowed")];
        if let Some(level_of) = &self.level_of {
            entries.push(("level", level_of));
        }
        let waits = scales.refusals();
        if let Some(waits) = &waits {
            entries.push(("refused", waits));
        }
        let mut x = LEFT;
        for (class, words) in entries {
            match class {
                "level" => {
                    svg.rect("left", x, 40.0, 14.0, 10.0);
                    svg.path("level", &format!("M{x:.1} 40h14"));
                }
                "refused" => svg.circle("refused", x + 7.0, 45.0, 3.0),
                _ => svg.rect(class, x, 40.0, 14.0, 10.0),
            }
            svg.text("", x + 20.0, 49.0, words);
            x += 40.0 + words.chars().count() as f64 * 5.9;
        }
    }
}

//! SVG shapes, in one file that needs no other.

use std::fmt::Write;

use crate::page::escaped;

/// Colours by meaning, for light and dark mode.
pub(crate) const PICTURE_STYLE: &str = include_str!("style.css");

/// A drawing that is being written.
pub(super) struct Svg {
    text: String,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Svg {
        let title = escaped(title);
        let mut text = String::new();
        // Writing to a string does not fail, here and below.
        _ = write!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\" class=\"waterclock\">\n\
             <title>{title}</title>\n<style>{PICTURE_STYLE}</style>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\" rx=\"10\"/>\n"
        );
        Svg { text }
    }

    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, words: &str) {
        let words = escaped(words);
        _ = writeln!(self.text, "<text{} x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>", of(class));
    }

    pub(super) fn path(&mut self, class: &str, data: &str) {
        _ = writeln!(self.text, "<path{} d=\"{data}\"/>", of(class));
    }

    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        let class = of(class);
        _ = writeln!(
            self.text,
            "<rect{class} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// A rectangle with a tooltip.
    pub(super) fn labelled_rect(
        &mut self,
        class: &str,
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        label: &str,
    ) {
        let (class, label) = (of(class), escaped(label));
        _ = writeln!(
            self.text,
            "<rect{class} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>{label}</title></rect>"
        );
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

fn of(class: &str) -> String {
    if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") }
}

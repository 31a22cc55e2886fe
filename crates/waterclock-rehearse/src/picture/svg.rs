//! The few shapes that the pictures are made of.

use std::fmt::Write;

use crate::visible::visible;

/// Colours by meaning, for bright and dark surroundings.
pub(super) const STYLE: &str = include_str!("style.css");

/// A drawing in the making.
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
             <title>{title}</title>\n<style>\n{STYLE}</style>\n\
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

    pub(super) fn circle(&mut self, class: &str, x: f64, y: f64, radius: f64) {
        let class = of(class);
        _ = writeln!(self.text, "<circle{class} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/>");
    }

    /// A circle that says something when it is pointed at.
    pub(super) fn telling_circle(&mut self, class: &str, x: f64, y: f64, tells: &str) {
        let (class, tells) = (of(class), escaped(tells));
        _ = writeln!(
            self.text,
            "<circle{class} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\"><title>{tells}</title></circle>"
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

/// Text that stays text, in elements and in attributes. What is not seen is spelled out: control characters
/// may not stand in a document at all.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Letters to Rust, and none to XML.
            '\u{fffe}' | '\u{ffff}' => safe.extend(character.escape_unicode()),
            _ => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        assert_eq!(escaped("<b a='\"&"), "&lt;b a=&#39;&quot;&amp;");
        assert_eq!(escaped("a\0\x1b[2J\u{202e}"), "a\\u{0}\\u{1b}[2J\\u{202e}");
        assert_eq!(escaped("né ✓"), "né ✓");
    }
}

//! SVG shapes, and pages around pictures and tables, in one file that needs no other.

use std::fmt::Write;

use crate::report::{Align, Table};
use crate::terminal::visible;

/// Colours by meaning, for light and dark mode.
const STYLE: &str = include_str!("style.css");

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

/// Text escaped for elements and attributes. Invisible characters are spelled out: XML forbids control characters.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Not allowed in XML.
            '\u{fffe}' | '\u{ffff}' => safe.extend(character.escape_unicode()),
            _ => safe.push(character),
        }
    }
    safe
}

const PAGE_STYLE: &str = include_str!("page.css");

/// A page that is being written.
pub(crate) struct Page {
    html: String,
}

impl Page {
    pub(crate) fn new(title: &str, lead: &str) -> Page {
        let (title, lead) = (escaped(title), escaped(lead));
        Page {
            html: format!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
                 <title>{title}</title>\n<style>\n{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n\
                 <h1>{title}</h1>\n<p>{lead}</p>\n"
            ),
        }
    }

    pub(crate) fn section(&mut self, title: &str) {
        // Writing to a string does not fail, here and below.
        _ = writeln!(self.html, "<h2>{}</h2>", escaped(title));
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        _ = writeln!(self.html, "<p>{}</p>", escaped(text));
    }

    /// Preformatted lines.
    pub(crate) fn verbatim(&mut self, text: &str) {
        _ = writeln!(
            self.html,
            "<pre>{}</pre>",
            text.lines().map(escaped).collect::<Vec<String>>().join("\n")
        );
    }

    /// A finished drawing.
    pub(crate) fn picture(&mut self, svg: &str) {
        _ = writeln!(self.html, "<figure>{svg}</figure>");
    }

    pub(crate) fn table(&mut self, table: &Table) {
        let row = |tag: &str, texts: Vec<String>| -> String {
            let cell = |(text, (_, align)): (&String, &(String, Align))| {
                let class = if *align == Align::Left { " class=\"text\"" } else { "" };
                format!("<{tag}{class}>{}</{tag}>", escaped(text))
            };
            texts.iter().zip(&table.head).map(cell).collect()
        };
        let head = table.head.iter().map(|(name, _)| name.clone()).collect();
        _ = writeln!(
            self.html,
            "<div class=\"wide\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>",
            row("th", head)
        );
        for cells in &table.rows {
            let texts = cells.iter().map(|cell| cell.content()).collect();
            _ = writeln!(self.html, "<tr>{}</tr>", row("td", texts));
        }
        self.html.push_str("</tbody>\n</table></div>\n");
    }

    pub(crate) fn finish(mut self) -> String {
        self.html.push_str("</main>\n</body>\n</html>\n");
        self.html
    }
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

//! Pages around pictures and tables, in one file that needs no other and asks no other.
//!
//! What a page says stands in its HTML. A script draws what can be pointed at; it gets its numbers as JSON in the page.
//! The content security policy names both by their hashes, so nothing else can run, whatever a log contains.

mod parts;

pub(crate) use self::parts::{Column, Part, escaped};

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::picture::{PICTURE_STYLE, Times};
use crate::report::{Align, Table};
use crate::terminal::is_invisible;

const STYLE: &str = include_str!("page.css");
const ICON: &str = "<svg viewBox=\"0 0 24 24\" aria-hidden=\"true\"><rect width=\"24\" height=\"24\" rx=\"5\" fill=\"#1f5fbf\"/>\
    <path d=\"M12 4c3.4 4.2 5.2 6.8 5.2 9.6a5.2 5.2 0 0 1-10.4 0C6.8 10.8 8.6 8.2 12 4z\" fill=\"#fff\"/></svg>";

/// The script of the page of a replay.
pub(crate) const REPORT_SCRIPT: &str = concat!(
    include_str!("text.js"),
    include_str!("axis.js"),
    include_str!("chart.js"),
    include_str!("curve.js"),
    include_str!("clients.js"),
    include_str!("report.js"),
);

/// The script of the page of a comparison.
pub(crate) const DIFF_SCRIPT: &str = concat!(
    include_str!("text.js"),
    include_str!("axis.js"),
    include_str!("chart.js"),
    include_str!("diff.js"),
);

/// A page that is being written.
pub(crate) struct Page {
    title: String,
    header: String,
    body: String,
    is_in_section: bool,
    /// A script, and the numbers that it draws.
    script: Option<(&'static str, String)>,
}

impl Page {
    /// With what kind of page it is, one headline, and a line about what it rests on.
    pub(crate) fn new(kind: &str, headline: &str, lead: &[Part<'_>]) -> Page {
        let mut header = format!(
            "<header>\n<p class=\"brand\">{ICON}<b>Waterclock</b> {}</p>\n<h1>{}</h1>\n<p class=\"lead\">",
            escaped(kind),
            escaped(headline)
        );
        lead.iter().for_each(|part| part.write(&mut header));
        header.push_str("</p>\n</header>\n");
        let (title, body) = (escaped(headline), String::new());
        Page { title, header, body, is_in_section: false, script: None }
    }

    /// A sentence below the headline, which the script may take the place of.
    pub(crate) fn below_headline(&mut self, text: &str) {
        let end = self.header.len() - "</header>\n".len();
        let line =
            format!("<p class=\"says\" id=\"change\" aria-live=\"polite\">{}</p>\n", escaped(text));
        self.header.insert_str(end, &line);
    }

    /// Begins a section. Writing to a string does not fail, here and below.
    pub(crate) fn section(&mut self, title: &str) {
        self.end_section();
        _ = writeln!(self.body, "<section>\n<h2>{}</h2>", escaped(title));
        self.is_in_section = true;
    }

    fn end_section(&mut self) {
        if std::mem::take(&mut self.is_in_section) {
            self.body.push_str("</section>\n");
        }
    }

    /// A line that explains a section.
    pub(crate) fn explain(&mut self, text: &str) {
        _ = writeln!(self.body, "<p class=\"muted\">{}</p>", escaped(text));
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        _ = writeln!(self.body, "<p>{}</p>", escaped(text));
    }

    /// A sentence that a section is about.
    pub(crate) fn statement(&mut self, text: &str) {
        _ = writeln!(self.body, "<p class=\"says\">{}</p>", escaped(text));
    }

    pub(crate) fn heading(&mut self, text: &str) {
        _ = writeln!(self.body, "<h3>{}</h3>", escaped(text));
    }

    /// Preformatted lines.
    pub(crate) fn verbatim(&mut self, text: &str) {
        let lines: Vec<String> = text.lines().map(escaped).collect();
        _ = writeln!(self.body, "<pre>{}</pre>", lines.join("\n"));
    }

    /// Lines of a file, which the script gives a button to copy them.
    pub(crate) fn lines_for_copying(&mut self, text: &str) {
        let lines: Vec<String> = text.lines().map(escaped).collect();
        _ = writeln!(self.body, "<div data-copy><pre>{}</pre></div>", lines.join("\n"));
    }

    /// Lines of a file that are gone and that are new.
    pub(crate) fn changed_lines(&mut self, removed: &[String], added: &[String]) {
        let line = |class: &str, sign: char, line: &String| {
            format!("<span class=\"{class}\">{sign} {}</span>", escaped(line))
        };
        let removed = removed.iter().map(|text| line("removed", '-', text));
        let added = added.iter().map(|text| line("added", '+', text));
        let lines: Vec<String> = removed.chain(added).collect();
        _ = writeln!(self.body, "<pre>{}</pre>", lines.join("\n"));
    }

    /// A finished drawing.
    pub(crate) fn picture(&mut self, svg: &str) {
        _ = writeln!(self.body, "<figure>{svg}</figure>");
    }

    /// An element that the script fills: nothing is there without it.
    pub(crate) fn drawn(&mut self, attributes: &str) {
        _ = writeln!(self.body, "<div {attributes} data-scripted hidden></div>");
    }

    /// Numbers with a word above each, and perhaps one below.
    pub(crate) fn tiles(&mut self, tiles: &[(&str, &str, String, String)]) {
        self.body.push_str("<dl class=\"tiles\">\n");
        for (class, word, number, below) in tiles {
            let (word, number, below) = (escaped(word), escaped(number), escaped(below));
            _ = writeln!(
                self.body,
                "<div><dt>{word}</dt><dd class=\"{class}\">{number}<small>{below}</small></dd></div>"
            );
        }
        self.body.push_str("</dl>\n");
    }

    /// Begins what is folded away until it is asked for.
    pub(crate) fn fold(&mut self, summary: &str) {
        _ = writeln!(self.body, "<details><summary>{}</summary>", escaped(summary));
    }

    /// The same for a table of what is drawn above it, which paper does not need.
    pub(crate) fn fold_numbers(&mut self) {
        self.body.push_str("<details class=\"aside\"><summary>The same as a table</summary>\n");
    }

    pub(crate) fn end_fold(&mut self) {
        self.body.push_str("</details>\n");
    }

    /// Begins and ends a part of a section.
    pub(crate) fn group(&mut self, class: &str, write: impl FnOnce(&mut Page)) {
        _ = writeln!(self.body, "<div class=\"{class}\">");
        write(self);
        self.body.push_str("</div>\n");
    }

    /// A table of a terminal.
    pub(crate) fn table(&mut self, table: &Table) {
        let columns: Vec<Column<'_>> = table
            .head
            .iter()
            .map(|(name, align)| match align {
                Align::Left => Column::text(name),
                Align::Right => Column::number(name),
            })
            .collect();
        let contents: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.iter().map(|cell| cell.content()).collect()).collect();
        let rows = contents.iter().map(|row| row.iter().map(|text| Part::Text(text)).collect());
        self.rows("", &columns, rows);
    }

    /// A table; the first cell of each row is what the row is about.
    pub(crate) fn rows<'p>(
        &mut self,
        attributes: &str,
        columns: &[Column<'_>],
        rows: impl Iterator<Item = Vec<Part<'p>>>,
    ) {
        _ = write!(self.body, "<div class=\"scroll\"><table {attributes}>\n<thead><tr>");
        for column in columns {
            let (class, name) = (column.class, escaped(column.name));
            _ = write!(self.body, "<th scope=\"col\" class=\"{class}\">{name}</th>");
        }
        self.body.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            self.body.push_str("<tr>");
            for (place, (part, column)) in row.iter().zip(columns).enumerate() {
                let (tag, scope) = if place == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
                _ = write!(self.body, "<{tag}{scope} class=\"{}\">", column.class);
                part.write(&mut self.body);
                _ = write!(self.body, "</{tag}>");
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody>\n</table></div>\n");
    }

    /// Has a script draw these numbers. Times are dates or start with 0.
    pub(crate) fn script(&mut self, script: &'static str, numbers: &Value, times: Times) {
        let dates = if times == Times::Utc { " data-dates" } else { "" };
        let json = embedded(&numbers.to_string());
        let data = format!("<script type=\"application/json\" id=\"data\"{dates}>{json}</script>");
        self.script = Some((script, data));
    }

    pub(crate) fn finish(mut self) -> String {
        self.end_section();
        let Page { title, header, body, script, .. } = self;
        let (code, data) = script.unwrap_or_default();
        let script = match code {
            "" => String::new(),
            code => format!("{data}\n<script type=\"module\">{code}</script>\n"),
        };
        let runs = match code {
            "" => "'none'".to_owned(),
            code => hash(code),
        };
        // Pictures bring a style of their own.
        let (style, pictures) = (hash(STYLE), hash(PICTURE_STYLE));
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {runs}; \
             style-src {style} {pictures}; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n\
             <body>\n{header}<main>\n{body}</main>\n<footer>Written by Waterclock {}. This file is complete: it loads nothing.</footer>\n\
             {script}</body>\n</html>\n",
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// As a content security policy names a script or a style.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}

/// JSON that cannot end the element it stands in, with invisible characters spelled out.
fn embedded(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for character in json.chars() {
        if character == '<' || is_invisible(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_stays_data() {
        let hostile = "</script><script>alert(1)</script>\u{202e}\u{7f}\u{e0041}é👩";
        let json = json!({ "key": hostile });
        let text = embedded(&json.to_string());
        assert!(!text.contains('<') && !text.chars().any(is_invisible), "{text}");
        assert!(text.contains("é👩"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json);
    }

    /// The hashes are of what stands between the tags, to the byte.
    #[test]
    fn the_security_policy_names_what_is_there() {
        let mut page = Page::new("test", "one", &[]);
        page.script(REPORT_SCRIPT, &json!({}), Times::Utc);
        let page = page.finish();
        let between = |from: &str, until: &str| {
            let (_, rest) = page.split_once(from).unwrap();
            rest.split_once(until).unwrap().0
        };
        let policy = between("Content-Security-Policy\" content=\"", "\">");
        for text in [between("<style>", "</style>"), between("type=\"module\">", "</script>")] {
            assert!(policy.contains(&hash(text)), "{policy}");
        }
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"));
        let mut page = Page::new("test", "one", &[]);
        page.section("s");
        let page = page.finish();
        assert!(page.contains("script-src 'none'") && page.matches("section>").count() == 2);
    }
}

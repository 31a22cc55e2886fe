//! Pieces of a page: text of others made harmless, keys, numbers and times.

use std::fmt::Write;

use waterclock_config::Micros;

use crate::picture::Times;
use crate::report::{grouped, share};
use crate::terminal::visible;

/// One cell of a table, or one piece of a sentence.
pub(crate) enum Part<'a> {
    Text(&'a str),
    Words(String),
    /// Text of others, isolated from its neighbours.
    Key(&'a str),
    Number(u64),
    Share(u64, u64),
    /// An instant, which the script writes in the zone of the reader; none is a dash.
    Time(Times, Option<u64>),
    /// A wait; none is never.
    Wait(Option<u64>),
    /// Text to copy, line by line.
    Code(&'a str),
    /// Words with the colour that pictures give them, and a tag. Names stand between backticks.
    Swatch(String, &'a str, Option<&'a str>),
    /// Sentences, one below the other. Names stand between backticks.
    Lines(Vec<String>),
    /// Where the script draws a small chart.
    Spark,
}

/// The head of a column.
pub(crate) struct Column<'a> {
    pub(super) name: &'a str,
    pub(super) class: &'static str,
}

impl<'a> Column<'a> {
    pub(crate) fn text(name: &'a str) -> Column<'a> {
        Column { name, class: "text" }
    }

    pub(crate) fn number(name: &'a str) -> Column<'a> {
        Column { name, class: "" }
    }

    /// A column for which narrow screens have no room.
    pub(crate) fn roomy(name: &'a str) -> Column<'a> {
        Column { name, class: "roomy" }
    }

    pub(crate) fn roomy_text(name: &'a str) -> Column<'a> {
        Column { name, class: "text roomy" }
    }
}

impl Part<'_> {
    pub(super) fn write(&self, out: &mut String) {
        // Writing to a string does not fail.
        _ = match self {
            Part::Text(text) => write!(out, "{}", escaped(text)),
            Part::Words(text) => write!(out, "{}", escaped(text)),
            Part::Key(key) => write!(out, "<bdi>{}</bdi>", escaped(key)),
            Part::Number(number) => write!(out, "{}", grouped(*number)),
            Part::Share(part, whole) => write!(out, "{}", share(*part, *whole)),
            Part::Time(_, None) => write!(out, "–"),
            Part::Time(Times::SinceZero, Some(t_us)) => {
                write!(out, "<span class=\"nowrap\">{}</span>", Times::SinceZero.show(*t_us))
            }
            Part::Time(Times::Utc, Some(t_us)) => {
                let (full, shown) = (Times::Utc.machine(*t_us), Times::Utc.show(*t_us));
                write!(out, "<time datetime=\"{full}\">{shown}</time>")
            }
            Part::Wait(Some(us)) => {
                write!(out, "<span class=\"nowrap\">{}</span>", Micros(*us).for_people())
            }
            Part::Wait(None) => write!(out, "never"),
            Part::Code(text) => {
                let lines: Vec<String> = text.lines().map(escaped).collect();
                write!(out, "<pre>{}</pre>", lines.join("\n"))
            }
            Part::Swatch(class, name, tag) => {
                let tag =
                    tag.map(|tag| format!("<span class=\"tag\">{tag}</span>")).unwrap_or_default();
                let name = with_names(name);
                write!(out, "<i class=\"swatch {class}\" aria-hidden=\"true\"></i>{name}{tag}")
            }
            Part::Lines(lines) => {
                let line = |line: &String| format!("<li>{}</li>", with_names(line));
                let lines: String = lines.iter().map(line).collect();
                write!(out, "<ul class=\"reasons\">{lines}</ul>")
            }
            Part::Spark => write!(out, "<span data-spark></span>"),
        };
    }
}

/// Escaped text; what stands between backticks is code.
fn with_names(text: &str) -> String {
    let pieces: Vec<String> = text.split('`').map(escaped).collect();
    if pieces.len().is_multiple_of(2) {
        return escaped(text);
    }
    let piece = |(place, piece): (usize, String)| match place % 2 {
        0 => piece,
        _ => format!("<code>{piece}</code>"),
    };
    pieces.into_iter().enumerate().map(piece).collect()
}

/// Text escaped for elements and attributes. Invisible characters are spelled out: XML forbids control characters.
pub(crate) fn escaped(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_text() {
        assert_eq!(escaped("<b a='\"&"), "&lt;b a=&#39;&quot;&amp;");
        assert_eq!(escaped("a\0\x1b[2J\u{202e}"), "a\\u{0}\\u{1b}[2J\\u{202e}");
        assert_eq!(escaped("né ✓"), "né ✓");
        let mut out = String::new();
        Part::Key("<i>").write(&mut out);
        assert_eq!(out, "<bdi>&lt;i&gt;</bdi>");
    }

    #[test]
    fn names_are_code() {
        assert_eq!(with_names("by `a<b`, new"), "by <code>a&lt;b</code>, new");
        assert_eq!(with_names("a ` alone"), "a ` alone");
    }

    #[test]
    fn instants_are_readable_by_programs() {
        let mut out = String::new();
        Part::Time(Times::Utc, Some(971_186_100_250_000)).write(&mut out);
        assert_eq!(out, "<time datetime=\"2000-10-10T13:55:00.250Z\">2000-10-10 13:55:00Z</time>");
        out.clear();
        Part::Time(Times::SinceZero, Some(1_500_000)).write(&mut out);
        assert_eq!(out, "<span class=\"nowrap\">1.5 s</span>");
    }
}

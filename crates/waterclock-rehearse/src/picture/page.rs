//! A page around pictures and tables, in one file that needs nothing else.

use std::fmt::Write;

use super::svg::escaped;

const STYLE: &str = include_str!("page.css");

/// A page in the making.
pub struct Page {
    html: String,
}

impl Page {
    pub fn new(title: &str, lead: &str) -> Page {
        let (title, lead) = (escaped(title), escaped(lead));
        Page {
            html: format!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
                 <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
                 <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
                 <h1>{title}</h1>\n<p>{lead}</p>\n"
            ),
        }
    }

    pub fn section(&mut self, title: &str) {
        // Writing to a string does not fail, here and below.
        _ = writeln!(self.html, "<h2>{}</h2>", escaped(title));
    }

    pub fn paragraph(&mut self, text: &str) {
        _ = writeln!(self.html, "<p>{}</p>", escaped(text));
    }

    /// Lines as they stand.
    pub fn verbatim(&mut self, text: &str) {
        _ = writeln!(
            self.html,
            "<pre>{}</pre>",
            text.lines().map(escaped).collect::<Vec<String>>().join("\n")
        );
    }

    /// A drawing that is whole already.
    pub fn picture(&mut self, svg: &str) {
        _ = writeln!(self.html, "<figure>{svg}</figure>");
    }

    /// A table whose first column is text and the others are numbers.
    pub fn table(&mut self, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        let cells = |tag: &str, cells: &[&str]| -> String {
            cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect()
        };
        _ = writeln!(
            self.html,
            "<div class=\"wide\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>",
            cells("th", head)
        );
        for row in rows {
            let row: Vec<&str> = row.iter().map(String::as_str).collect();
            _ = writeln!(self.html, "<tr>{}</tr>", cells("td", &row));
        }
        self.html.push_str("</tbody>\n</table></div>\n");
    }

    pub fn finish(mut self) -> String {
        self.html.push_str("</main>\n</body>\n</html>\n");
        self.html
    }
}

//! A line whose fields are separated by commas, or by another sign, and quoted where they hold one.

use std::borrow::Cow;

use tollgate_server::config::did_you_mean;

use crate::expr::{Kind, Names, Row, Value};

/// Which columns there are, and where they are in the last line.
pub(super) struct Csv {
    delimiter: u8,
    columns: Vec<String>,
    cells: Vec<Cell>,
}

/// A column's text in the line, without the quotes around it.
struct Cell {
    start: usize,
    end: usize,
    has_quotes: bool,
}

/// Why a line is not split.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Open;

impl Csv {
    /// By a header line that names the columns, or any line, which then are f1, f2 and so on.
    pub(super) fn new(first: &str, delimiter: u8, has_header: bool) -> Result<Csv, Open> {
        let mut csv = Csv { delimiter, columns: Vec::new(), cells: Vec::new() };
        csv.split(first)?;
        csv.columns = (0..csv.cells.len())
            .map(|place| match csv.row(first).text(place) {
                Some(name) if has_header => name.trim().to_owned(),
                _ => format!("f{}", place + 1),
            })
            .collect();
        Ok(csv)
    }

    /// Finds the columns of a line; it is [`Open`] if the last goes on in the next line.
    pub(super) fn split(&mut self, line: &str) -> Result<(), Open> {
        self.cells.clear();
        let bytes = line.as_bytes();
        let mut start = 0;
        loop {
            let cell = if bytes.get(start) == Some(&b'"') {
                quoted(bytes, start + 1).ok_or(Open)?
            } else {
                Cell { start, end: self.next_delimiter(bytes, start), has_quotes: false }
            };
            // After a closing quote, only the delimiter should come.
            let after = self.next_delimiter(bytes, cell.end);
            self.cells.push(cell);
            if after >= bytes.len() {
                return Ok(());
            }
            start = after + 1;
        }
    }

    fn next_delimiter(&self, bytes: &[u8], from: usize) -> usize {
        let rest = bytes.get(from..).unwrap_or(&[]);
        let found = rest.iter().position(|byte| *byte == self.delimiter);
        found.map_or(bytes.len(), |place| from + place)
    }

    /// The line that was split last.
    pub(super) fn row<'l>(&'l self, line: &'l str) -> CsvRow<'l> {
        CsvRow { line, csv: self }
    }
}

/// From behind the opening quote to the closing one.
fn quoted(bytes: &[u8], start: usize) -> Option<Cell> {
    let (mut at, mut has_quotes) = (start, false);
    loop {
        at += bytes.get(at..)?.iter().position(|byte| *byte == b'"')?;
        if bytes.get(at + 1) != Some(&b'"') {
            return Some(Cell { start, end: at, has_quotes });
        }
        has_quotes = true;
        at += 2;
    }
}

impl Names for Csv {
    fn find(&mut self, name: &str) -> Result<(usize, Kind), String> {
        self.columns
            .iter()
            .position(|column| column == name)
            .map(|place| (place, Kind::Any))
            .ok_or_else(|| {
                let columns = self.columns.iter().map(String::as_str);
                let hint = did_you_mean(name, columns);
                let known = crate::expr::quoted(&self.columns.join(", "));
                format!("there is no column `{name}` in this log{hint} (it has {known})")
            })
    }
}

/// The columns of a line.
pub(super) struct CsvRow<'l> {
    line: &'l str,
    csv: &'l Csv,
}

impl<'l> CsvRow<'l> {
    fn text(&self, place: usize) -> Option<Cow<'l, str>> {
        let cell = self.csv.cells.get(place)?;
        let text = self.line.get(cell.start..cell.end)?;
        Some(if cell.has_quotes { text.replace("\"\"", "\"").into() } else { text.into() })
    }
}

impl Row for CsvRow<'_> {
    /// An empty column says nothing.
    fn value(&self, place: usize) -> Value<'_> {
        match self.text(place) {
            Some(text) if !text.is_empty() => Value::Text(text),
            _ => Value::Missing,
        }
    }

    fn name(&self, place: usize) -> String {
        self.csv.columns.get(place).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(line: &str) -> Option<Vec<String>> {
        let mut csv = Csv::new("a", b',', true).unwrap();
        csv.split(line).ok()?;
        let row = csv.row(line);
        Some(
            (0..csv.cells.len()).filter_map(|place| row.text(place)).map(Cow::into_owned).collect(),
        )
    }

    #[test]
    fn columns() {
        for (line, expected) in [
            ("a,b,c", vec!["a", "b", "c"]),
            ("", vec![""]),
            (",", vec!["", ""]),
            (r#""a,b",c"#, vec!["a,b", "c"]),
            (r#""say ""hi""",x"#, vec![r#"say "hi""#, "x"]),
            (r#""a" b,c"#, vec!["a", "c"]),
            (r#"a"b,c"#, vec![r#"a"b"#, "c"]),
            ("é,\"ü\nü\"", vec!["é", "ü\nü"]),
            (r#""","#, vec!["", ""]),
        ] {
            let expected = expected.into_iter().map(str::to_owned).collect::<Vec<_>>();
            // An opening quote that nothing closes is the only thing that is no line.
            match cells(line) {
                Some(found) => assert_eq!(found, expected, "{line}"),
                None => assert!(line.matches('"').count() % 2 == 1, "{line}"),
            }
        }
        assert_eq!(cells(r#"a,"b"#), None);
    }

    #[test]
    fn nothing_panics() {
        let mut rng = fastrand::Rng::with_seed(5);
        let pieces = ["\"", ",", "a", "é", "\n", " "];
        for _ in 0..30_000 {
            let length = rng.usize(0..12);
            let line: String = (0..length).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
            let _ = cells(&line);
        }
    }
}

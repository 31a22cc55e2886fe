//! A line whose fields are separated by commas, or by another character, and quoted where they contain one.
//!
//! Written by hand because `csv-core` takes 1.6 times as long (200,000 lines with quotes, in one run: it copies every
//! field), and because logs are not always CSV: a quote that nothing closes must cost one line, not the rest of the file.

use std::borrow::Cow;

use waterclock_config::did_you_mean;

use crate::expr::{Kind, Names, Row, Value, quoted};
use crate::terminal::shown;

/// Which columns there are, and where they are in the last line.
pub(super) struct Csv {
    delimiter: u8,
    columns: Vec<String>,
    cells: Vec<Cell>,
    /// The column that continues on the next line, as far as it is known.
    open: Cell,
}

/// A column's text in the line, without the quotes around it.
#[derive(Clone, Copy, Default)]
struct Cell {
    start: usize,
    end: usize,
    has_quotes: bool,
}

/// Why a line cannot be split.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unsplit {
    /// Its last column continues on the next line.
    Open,
    /// A quote inside a column that continued: the quote at its beginning does not open it.
    Stray,
}

impl Csv {
    /// By a header line that names the columns, or any line, which then are f1, f2 and so on.
    pub(super) fn new(first: &[u8], delimiter: u8, has_header: bool) -> Result<Csv, Unsplit> {
        let (columns, cells, open) = (Vec::new(), Vec::new(), Cell::default());
        let mut csv = Csv { delimiter, columns, cells, open };
        csv.split(first)?;
        csv.columns = (0..csv.cells.len())
            .map(|place| match csv.row(first).text(place) {
                Some(name) if has_header => name.trim().to_owned(),
                _ => format!("f{}", place + 1),
            })
            .collect();
        Ok(csv)
    }

    /// Finds the columns of a line.
    pub(super) fn split(&mut self, line: &[u8]) -> Result<(), Unsplit> {
        self.cells.clear();
        self.split_from(line, Some(0))
    }

    /// Finds the rest of them, once a line that is open has become longer by the next.
    pub(super) fn go_on(&mut self, line: &[u8]) -> Result<(), Unsplit> {
        let cell = self.closed(line, self.open)?;
        let after = self.next_delimiter(line, cell.end);
        if line.get(cell.end + 1..after).is_some_and(|rest| !rest.trim_ascii().is_empty()) {
            return Err(Unsplit::Stray);
        }
        let next = self.push(line, cell);
        self.split_from(line, next)
    }

    fn split_from(&mut self, line: &[u8], mut next: Option<usize>) -> Result<(), Unsplit> {
        while let Some(start) = next {
            let cell = if line.get(start) == Some(&b'"') {
                self.closed(line, Cell { start: start + 1, end: start + 1, has_quotes: false })?
            } else {
                Cell { start, end: self.next_delimiter(line, start), has_quotes: false }
            };
            next = self.push(line, cell);
        }
        Ok(())
    }

    /// Takes in a column; where the next begins, if there is one. What stands between a closing quote and
    /// the delimiter is nothing.
    fn push(&mut self, line: &[u8], cell: Cell) -> Option<usize> {
        let after = self.next_delimiter(line, cell.end);
        self.cells.push(cell);
        (after < line.len()).then_some(after + 1)
    }

    fn next_delimiter(&self, line: &[u8], from: usize) -> usize {
        let rest = line.get(from..).unwrap_or(&[]);
        let found = rest.iter().position(|byte| *byte == self.delimiter);
        found.map_or(line.len(), |place| from + place)
    }

    /// A column behind its opening quote, looked through up to its end so far, with the closing quote as its
    /// end.
    fn closed(&mut self, line: &[u8], mut cell: Cell) -> Result<Cell, Unsplit> {
        loop {
            let rest = line.get(cell.end..).unwrap_or(&[]);
            let Some(place) = rest.iter().position(|byte| *byte == b'"') else {
                self.open = Cell { end: line.len(), ..cell };
                return Err(Unsplit::Open);
            };
            cell.end += place;
            if line.get(cell.end + 1) != Some(&b'"') {
                return Ok(cell);
            }
            cell.has_quotes = true;
            cell.end += 2;
        }
    }

    /// The line that was split last.
    pub(super) fn row<'l>(&'l self, line: &'l [u8]) -> CsvRow<'l> {
        CsvRow { line, csv: self }
    }
}

impl Names for Csv {
    fn find(&mut self, name: &str) -> Result<(usize, Kind), String> {
        self.columns
            .iter()
            .position(|column| column == name)
            .map(|place| (place, Kind::Any))
            .ok_or_else(|| {
                let columns: Vec<String> = self.columns.iter().map(|name| shown(name)).collect();
                let hint = did_you_mean(name, columns.iter().map(String::as_str));
                let known = quoted(&self.columns.join(", "));
                format!("there is no column `{name}` in this log{hint} (it has {known})")
            })
    }
}

/// The columns of a line.
pub(super) struct CsvRow<'l> {
    line: &'l [u8],
    csv: &'l Csv,
}

impl<'l> CsvRow<'l> {
    /// What is no UTF-8 is shown as such.
    fn text(&self, place: usize) -> Option<Cow<'l, str>> {
        let cell = self.csv.cells.get(place)?;
        let text = String::from_utf8_lossy(self.line.get(cell.start..cell.end)?);
        Some(if cell.has_quotes { text.replace("\"\"", "\"").into() } else { text })
    }
}

impl Row for CsvRow<'_> {
    /// An empty column is missing.
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

    /// The columns of a line that may be several: it is made longer while it is open.
    fn cells(text: &str) -> Result<Vec<String>, Unsplit> {
        let mut csv = Csv::new(b"a", b',', true)?;
        let line = text.as_bytes();
        let breaks = text.match_indices('\n').map(|(at, _)| at);
        let mut ends = breaks.chain([line.len()]).skip_while(|end| *end == 0);
        let mut end = ends.next().unwrap_or(0);
        let mut split = csv.split(&line[..end]);
        while split == Err(Unsplit::Open)
            && let Some(longer) = ends.next()
        {
            end = longer;
            split = csv.go_on(&line[..end]);
        }
        split?;
        let row = csv.row(&line[..end]);
        let texts = (0..csv.cells.len()).filter_map(|place| row.text(place));
        Ok(texts.map(Cow::into_owned).collect())
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
            (r#""","#, vec!["", ""]),
            (r#"a"b"",c"#, vec![r#"a"b"""#, "c"]),
            ("é,\"ü\nü\"", vec!["é", "ü\nü"]),
            ("\"a\"\"\n\n\"\"b\" ,c,\"d\ne\"", vec!["a\"\n\n\"b", "c", "d\ne"]),
        ] {
            assert_eq!(
                cells(line),
                Ok(expected.into_iter().map(str::to_owned).collect()),
                "{line}"
            );
        }
    }

    #[test]
    fn what_is_no_line() {
        for line in [r#"""",b"#, r#"a,"b"#, "\"", "a,\"b\nc", "\"\"\"\n\"\""] {
            assert_eq!(cells(line), Err(Unsplit::Open), "{line}");
        }
        for line in ["a,\"b\nc,d\n\"e\",f", "\"\nb\"c\"\n"] {
            assert_eq!(cells(line), Err(Unsplit::Stray), "{line}");
        }
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

//! Tables for people, the same numbers as JSON, and which targets are met.

use serde_json::{Value, json};

#[derive(Default)]
pub struct Report {
    tables: Vec<Value>,
    targets: Vec<Target>,
}

struct Target {
    id: &'static str,
    what: String,
    bound: Bound,
    measured: f64,
}

/// What a measured number must be.
#[derive(Clone, Copy)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Report {
    /// Prints a table at once, so that a long run shows where it is.
    pub fn table(&mut self, title: &str, columns: &[&str], rows: &[Row]) {
        println!("\n## {title}\n");
        let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        println!("| {:width$} | {} |", "", columns.join(" | "));
        println!("|-{}-|{}", "-".repeat(width), "---:|".repeat(columns.len()));
        for row in rows {
            let cells = row.cells.iter().zip(columns);
            let cells = cells.map(|(cell, column)| format!("{:>1$}", text(*cell), column.len()));
            println!("| {:width$} | {} |", row.name, cells.collect::<Vec<_>>().join(" | "));
        }
        let rows = rows.iter().map(|row| json!({ "name": row.name, "values": row.cells }));
        let rows: Vec<Value> = rows.collect();
        self.tables.push(json!({ "title": title, "columns": columns, "rows": rows }));
    }

    pub fn target(&mut self, id: &'static str, what: &str, bound: Bound, measured: f64) {
        self.targets.push(Target { id, what: what.to_owned(), bound, measured });
    }

    pub fn print_targets(&self) {
        println!("\n## Targets\n\n| | | measured | target | |\n|---|---|---:|---:|---|");
        for Target { id, what, bound, measured } in &self.targets {
            let verdict = if bound.holds(*measured) { "met" } else { "**missed**" };
            println!("| {id} | {what} | {} | {} | {verdict} |", text(*measured), bound.text());
        }
    }

    pub fn json(&self) -> Value {
        let targets = self.targets.iter().map(|target| {
            json!({
                "id": target.id,
                "what": target.what,
                "measured": target.measured,
                "target": target.bound.text(),
                "met": target.bound.holds(target.measured),
            })
        });
        json!({ "tables": self.tables, "targets": targets.collect::<Vec<_>>() })
    }
}

pub struct Row {
    pub name: String,
    /// NaN where there is nothing to say.
    pub cells: Vec<f64>,
}

impl Row {
    pub fn new(name: impl Into<String>, cells: impl Into<Vec<f64>>) -> Self {
        Self { name: name.into(), cells: cells.into() }
    }
}

impl Bound {
    fn holds(self, measured: f64) -> bool {
        match self {
            Self::AtLeast(least) => measured >= least,
            Self::AtMost(most) => measured <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
        }
    }
}

/// Three figures are all that is known.
fn text(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => "–".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

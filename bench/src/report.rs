//! Tables for people, the same numbers as JSON, and which goals are met.

use std::io;

use serde_json::{Value, json};

use crate::flags::Flags;
use crate::goal::{Bound, Goal};

pub struct Report<'a> {
    family: &'static str,
    flags: &'a Flags,
    tables: Vec<Value>,
    goals: Vec<(Goal, f64)>,
}

impl<'a> Report<'a> {
    pub fn new(family: &'static str, flags: &'a Flags) -> Self {
        Self { family, flags, tables: vec![], goals: vec![] }
    }

    /// Prints a table at once, so that a long run shows where it is.
    pub fn table(&mut self, title: &str, columns: &[&str], rows: &[Row]) {
        println!("\n## {title}\n");
        let names: Vec<String> = rows.iter().map(Row::label).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        println!("| {:width$} | {} |", "", columns.join(" | "));
        println!("|-{}-|{}", "-".repeat(width), "---:|".repeat(columns.len()));
        for (row, name) in rows.iter().zip(names) {
            let cell = |(n, column): (usize, &&str)| {
                let value = row.cells.get(n).copied().unwrap_or(f64::NAN);
                format!("{:>1$}", text(value), column.chars().count())
            };
            let cells: Vec<String> = columns.iter().enumerate().map(cell).collect();
            println!("| {name:width$} | {} |", cells.join(" | "));
        }
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        self.tables.push(json!({ "title": title, "columns": columns, "rows": rows }));
    }

    /// `measured`: NaN if it could not be measured.
    pub fn goal(&mut self, goal: Goal, measured: f64) {
        self.goals.push((goal, measured));
    }

    /// Prints the goals and writes the file of `--json`.
    pub fn finish(self) -> io::Result<()> {
        println!("\n## Goals\n\n| | | measured | goal | |\n|---|---|---:|---:|---|");
        for (Goal { id, what, bound }, measured) in &self.goals {
            let verdict = match bound.met_by(*measured) {
                Some(true) => "met",
                Some(false) => "**missed**",
                None => "not measured",
            };
            println!("| {id} | {what} | {} | {} | {verdict} |", text(*measured), bound.text());
        }
        match &self.flags.json {
            Some(path) => std::fs::write(path, format!("{:#}\n", self.json())),
            None => Ok(()),
        }
    }

    fn json(&self) -> Value {
        let goals = self.goals.iter().map(|(Goal { id, what, bound }, measured)| {
            let (kind, value) = match bound {
                Bound::AtLeast(least) => ("at_least", least),
                Bound::AtMost(most) => ("at_most", most),
            };
            let met = bound.met_by(*measured);
            json!({ "id": id, "what": what, "measured": measured, kind: value, "met": met })
        });
        json!({
            "family": self.family,
            "quick": self.flags.quick,
            "rounds": self.flags.rounds,
            "tables": self.tables,
            "goals": goals.collect::<Vec<_>>(),
        })
    }
}

/// A contestant's numbers, or why there are none.
pub struct Row {
    name: String,
    /// NaN where there is nothing to say.
    cells: Vec<f64>,
    absent: Option<String>,
}

impl Row {
    pub fn new(name: impl Into<String>, cells: impl Into<Vec<f64>>) -> Self {
        Self { name: name.into(), cells: cells.into(), absent: None }
    }

    pub fn absent(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { name: name.into(), cells: vec![], absent: Some(why.into()) }
    }

    fn label(&self) -> String {
        match &self.absent {
            Some(why) => format!("{}: {why}", self.name),
            None => self.name.clone(),
        }
    }

    fn json(&self) -> Value {
        match &self.absent {
            Some(why) => json!({ "name": self.name, "absent": why }),
            None => json!({ "name": self.name, "values": self.cells }),
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

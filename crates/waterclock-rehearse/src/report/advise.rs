//! The advice in plain sentences, and the configuration to start with.

use std::io::{self, Write};

use comfy_table::Cell;
use waterclock::Limit;

use super::advice::{Advice, Point, RULE, toml, words};
use super::units::{Align, Table, counted, share};
use super::{Report, grouped};
use crate::terminal::{STRONG, styled};

/// How many points of a curve are shown, beside the policy's own.
const POINTS: usize = 7;
/// What a client needs that no number suits.
pub(super) const BEYOND_ANY: &str = "more than any number";
/// Beside a limit of the configuration that is copied.
const UNCHANGED: &str = "# unchanged: no number was found";

impl Advice {
    /// `99 % of clients never exceed 60/min; 99.9 % never exceed 90/min`. Of equal limits, the largest share is told;
    /// where no number suits, the smallest.
    pub(super) fn sentence(&self) -> String {
        let shares = ["99 %", "99.9 %", "all"];
        let same = self.percentiles.chunk_by(|one, other| one.number() == other.number());
        let (mut told, mut parts) = (0, Vec::new());
        for some in same {
            let least = shares.get(told).copied().filter(|share| *share != "all");
            told += some.len();
            let share = shares[told.clamp(1, shares.len()) - 1];
            let is_all = told == shares.len();
            let who = match (parts.is_empty(), is_all) {
                (true, true) => "no client exceeds".to_owned(),
                (true, false) => format!("{share} of clients never exceed"),
                (false, _) => format!("{share} never exceed"),
            };
            parts.push(match some[0].limit.as_ref() {
                Some((_, limit)) => format!("{who} {}", words(limit)),
                None => {
                    let whom = least.map_or_else(
                        || "all clients".to_owned(),
                        |share| format!("{share} of clients"),
                    );
                    format!("no number suits {whom}, {}", self.no_number())
                }
            });
        }
        let sentence = parts.join("; ");
        match usize::try_from(self.outliers).unwrap_or(usize::MAX) {
            0 => sentence,
            outliers => format!("apart from {}, {sentence}", counted(outliers, "outlier")),
        }
    }
}

impl Report<'_> {
    pub(super) fn write_advice(&self, out: &mut impl Write) -> io::Result<()> {
        if self.advice.is_empty() {
            return Ok(());
        }
        let title = format!("what the limit could be, by clients{}", self.extent());
        writeln!(out, "{}", styled(STRONG, title))?;
        for advice in &self.advice {
            writeln!(out, "  {}: {}.", advice.limit, advice.sentence())?;
            if let Some(aside) = self.aside(advice) {
                writeln!(out, "    {aside}.")?;
            }
        }
        if self.advice.iter().any(|advice| advice.largest.is_some()) {
            writeln!(out, "  {RULE}.")?;
        }
        for advice in self.chosen() {
            curve(advice).write(out, "  ")?;
        }
        if let Some(toml) = self.toml() {
            let clients = if self.has_outliers() { "the others" } else { "clients" };
            let alone = if self.policy.limits().len() > 1 { " (each limit alone)" } else { "" };
            let title = format!("to start with, so that 99.9 % of {clients} never notice{alone}");
            writeln!(out, "{}", styled(STRONG, title))?;
            toml.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
        }
        Ok(())
    }

    /// The advice to start with. Without limits it is the first; the others are in --json and on the page.
    fn chosen(&self) -> &[Advice] {
        let is_own = !self.policy.limits().is_empty();
        if is_own { &self.advice } else { self.advice.get(..1).unwrap_or_default() }
    }

    /// Whether the policy to start with leaves clients out of account.
    fn has_outliers(&self) -> bool {
        self.chosen().iter().any(|advice| advice.outliers > 0)
    }

    /// Which clients are set aside.
    fn aside(&self, advice: &Advice) -> Option<String> {
        let largest = advice.largest.as_ref()?;
        let key =
            self.key_of(largest.key).map_or_else(|| "one".to_owned(), |key| format!("{key:?}"));
        let kind = largest.kind.map_or_else(String::new, |kind| format!(" ({})", kind.words()));
        let needs = match &largest.limit {
            Some(limit) => format!("needs {}", words(limit)),
            None => format!("needs {BEYOND_ANY}"),
        };
        let many = match advice.many_agents {
            0 => String::new(),
            1 => "; one of them looks like many users behind one address".to_owned(),
            many => format!("; {} of them look like many users behind one address", grouped(many)),
        };
        Some(match advice.outliers {
            1 => format!("set aside, as it stands out: {key} {needs}{kind}"),
            more => format!(
                "set aside, as they stand out: {} clients, of which {key} {needs}{kind}{many}",
                grouped(more)
            ),
        })
    }

    /// The limits to start with, as a configuration: those that 99.9 % of clients never exceed. Without limits, the
    /// first that is advised. Limits that no number was found for say so.
    pub(super) fn toml(&self) -> Option<String> {
        let advised = |limit: &Limit| {
            let advice = self.advice.iter().find(|advice| advice.limit == limit.name());
            advice.and_then(Advice::start).map(|start| start.clone().with_shadow(limit.is_shadow()))
        };
        let line = |limit: &Limit| format!("  {},\n", toml(limit));
        let unchanged = |limit: &Limit| format!("  {}, {UNCHANGED}\n", toml(limit));
        let lines: Vec<String> = match self.policy.limits() {
            [] => self
                .advice
                .first()?
                .start()
                .map(|start| line(&unnamed(start)))
                .into_iter()
                .collect(),
            limits => {
                let line =
                    |limit| advised(limit).map_or_else(|| unchanged(limit), |new| line(&new));
                limits.iter().map(line).collect()
            }
        };
        let has_advice = self.advice.iter().any(|advice| advice.start().is_some());
        if lines.is_empty() || !has_advice {
            return None;
        }
        let name = self.policy.name();
        let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        let name = if name.chars().all(is_bare) { name.to_owned() } else { format!("{name:?}") };
        Some(format!("[policies.{name}]\nlimits = [\n{}]\n", lines.concat()))
    }
}

/// A limit needs no name where it is the only one.
fn unnamed(limit: &Limit) -> Limit {
    limit.clone().with_name(limit.algorithm().name())
}

/// What is refused at a few numbers, and of whom, where the traffic tells.
fn curve(advice: &Advice) -> Table {
    let current = advice.curve.current.and_then(|place| advice.curve.points.get(place));
    let (clients, checks) = (advice.curve.clients, advice.curve.checks);
    let is_known = |point: &Point| point.kinds.one_agent + point.kinds.many_agents > 0;
    let tells_kinds = advice.curve.points.iter().any(is_known);
    let row = |point: &Point| {
        let is_current = current.is_some_and(|current| current.number == point.number);
        let mark = if is_current { " (now)" } else { "" };
        let who = match (point.kinds.one_agent, point.kinds.many_agents) {
            (0, 0) => "–".to_owned(),
            (one, many) => format!("{} / {}", grouped(one), grouped(many)),
        };
        let mut cells = vec![
            Cell::new(format!("{}{mark}", words(&point.limit))),
            Cell::new(grouped(point.clients_refused)),
            Cell::new(share(point.clients_refused, clients)),
            Cell::new(grouped(point.checks_refused)),
            Cell::new(share(point.checks_refused, checks)),
        ];
        cells.extend(tells_kinds.then(|| Cell::new(who)));
        cells
    };
    let name = format!("{} at", advice.limit);
    let right = ["refuses clients", "", "checks", ""].map(|name| (name.to_owned(), Align::Right));
    let mut head = vec![(name, Align::Left)];
    head.extend(right);
    head.extend(tells_kinds.then(|| ("few agents / many".to_owned(), Align::Right)));
    Table { head, rows: advice.curve.some(POINTS).into_iter().map(row).collect() }
}

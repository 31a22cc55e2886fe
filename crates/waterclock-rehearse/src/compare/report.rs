//! The comparison for a terminal, and for programs.

use std::io::{self, Write};

use comfy_table::{Cell, Color};
use serde_json::{Value, json};

use super::SideBySide;
use super::tally::{Both, Difference};
use crate::report::{Align, TOP, Table, by_limit, counted, grouped, share};
use crate::terminal::{STRONG, WARN, styled};
use crate::trace::OldDecisions;

impl SideBySide {
    /// Writes it as text with colours.
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let all = &self.tally.all;
        let agree = share(all.checks - all.differences(), all.checks);
        writeln!(
            out,
            "{}",
            styled(STRONG, format!("they agree about {agree} of {} checks", grouped(all.checks)))
        )?;
        writeln!(
            out,
            "old: refused where {}; new: policy {}, in shadow; {}",
            self.old_words(),
            self.policy.name(),
            self.tally.clients.number()
        )?;
        let row = |(word, count): (&str, u64)| {
            [Cell::new(word), Cell::new(grouped(count)), Cell::new(share(count, all.checks))]
        };
        let rows = [
            ("both allow", all.both_allow()),
            ("both refuse", all.both_refuse),
            ("only the old refuses", all.only_old),
            ("only the new refuses", all.only_new),
        ];
        let head = [("", Align::Left), ("checks", Align::Right), ("share", Align::Right)];
        Table::new(head, rows.map(row)).write(out, " ")?;
        self.write_differences(out)?;
        self.notes.iter().try_for_each(|note| writeln!(out, "{} {note}", styled(WARN, "note:")))?;
        out.flush()
    }

    fn write_differences(&self, out: &mut impl Write) -> io::Result<()> {
        if self.tally.all.differences() == 0 {
            return Ok(());
        }
        writeln!(out, "{}", styled(STRONG, "why they differ"))?;
        let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        for Difference { class, checks, clients } in self.tally.differences() {
            let (checks, clients) =
                (counted(count(checks), "check"), counted(count(clients), "client"));
            writeln!(out, "  {checks} of {clients}. {}", class.sentence())?;
        }
        if self.tally.uncounted() > 0 {
            let checks = counted(count(self.tally.uncounted()), "check");
            writeln!(out, "  And {checks} of clients that were not counted to the end.")?;
        }
        let limits = self.policy.limits().iter().zip(&self.tally.only_new_by);
        for (limit, count) in limits.filter(|(_, count)| **count > 0) {
            let are = if *count == 1 { "is" } else { "are" };
            writeln!(
                out,
                "  Of the checks that only the new policy refuses, {} {are} refused by `{}`.",
                grouped(*count),
                limit.name()
            )?;
        }
        writeln!(out, "{}", styled(STRONG, "clients that differ most"))?;
        let row = |(key, client): (&str, Both)| {
            [
                Cell::new(grouped(client.only_old)).fg(Color::Green),
                Cell::new(grouped(client.only_new)).fg(Color::Red),
                Cell::new(grouped(client.both_refuse)),
                Cell::new(format!("of {}", grouped(client.checks))),
                Cell::new(format!("{key:?}")),
            ]
        };
        use Align::{Left, Right};
        let head = [
            ("only old", Right),
            ("only new", Right),
            ("both refuse", Right),
            ("checks", Right),
            ("key", Left),
        ];
        Table::new(head, self.tally.clients.top(TOP, Both::differences).into_iter().map(row))
            .write(out, " ")
    }

    fn old_words(&self) -> &str {
        match &self.old {
            OldDecisions::Refused(text) => text,
            OldDecisions::Allowed => "allowed is false",
        }
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let counts = |both: &Both| {
            json!({
                "checks": both.checks,
                "both_allow": both.both_allow(),
                "both_refuse": both.both_refuse,
                "only_old_refuses": both.only_old,
                "only_new_refuses": both.only_new,
            })
        };
        let difference = |difference: Difference| {
            json!({
                "class": difference.class.name(),
                "checks": difference.checks,
                "clients": difference.clients,
                "sentence": difference.class.sentence(),
            })
        };
        let client = |(key, both): (&str, Both)| {
            let mut client = counts(&both);
            client["key"] = json!(key);
            client
        };
        let (all, clients) = (&self.tally.all, &self.tally.clients);
        let mut json = counts(all);
        let more = json!({
            "source": self.source,
            "policy": self.policy.name(),
            "old": self.old_words(),
            "agree": all.checks - all.differences(),
            "clients": clients.number().count,
            "clients_are_estimates": clients.has_evicted(),
            "only_new_refuses_by": by_limit(self.policy.policy(), &self.tally.only_new_by),
            "differences": self.tally.differences().into_iter().map(difference).collect::<Vec<Value>>(),
            "uncounted_differences": self.tally.uncounted(),
            "most_different_clients": clients.top(TOP, Both::differences).into_iter().map(client).collect::<Vec<Value>>(),
            "remarks": self.notes,
        });
        if let (Value::Object(json), Value::Object(more)) = (&mut json, more) {
            json.extend(more);
        }
        json
    }
}

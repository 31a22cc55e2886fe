//! What a replay writes: one line per event, or totals at the end.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use tollgate::{Decision, Policy};

use super::event::{Event, Op};
use tollgate_server::decision_line::DecisionLine;

/// How many of the most refused keys a summary names.
const TOP: usize = 10;

pub(super) trait Report {
    fn add(&mut self, policy: &Policy, event: &Event<'_>, decision: &Decision) -> io::Result<()>;
    fn finish(&mut self, policy: &Policy) -> io::Result<()>;
}

/// A decision per line, in the order of the events.
pub(super) struct Jsonl<W: Write>(BufWriter<W>);

impl<W: Write> Jsonl<W> {
    pub(super) fn new(out: W) -> Jsonl<W> {
        Jsonl(BufWriter::with_capacity(1 << 16, out))
    }
}

impl<W: Write> Report for Jsonl<W> {
    fn add(&mut self, policy: &Policy, event: &Event<'_>, decision: &Decision) -> io::Result<()> {
        let line = DecisionLine::new(policy, &event.key, event.cost, decision)
            .of_event(event.t_us, event.op.answer_names_it());
        serde_json::to_writer(&mut self.0, &line)?;
        self.0.write_all(b"\n")
    }

    fn finish(&mut self, _policy: &Policy) -> io::Result<()> {
        self.0.flush()
    }
}

/// Totals: how many passed, and who and what stopped the others.
pub(super) struct Summary<W: Write> {
    out: W,
    events: u64,
    checks: u64,
    allowed: u64,
    partial: u64,
    refused: u64,
    by_limit: HashMap<usize, u64>,
    in_shadow: HashMap<usize, u64>,
    by_key: HashMap<String, u64>,
}

impl<W: Write> Summary<W> {
    pub(super) fn new(out: W) -> Summary<W> {
        let (by_limit, in_shadow, by_key) = Default::default();
        Summary {
            out,
            events: 0,
            checks: 0,
            allowed: 0,
            partial: 0,
            refused: 0,
            by_limit,
            in_shadow,
            by_key,
        }
    }

    fn count_refusal(&mut self, key: &str) {
        self.refused += 1;
        match self.by_key.get_mut(key) {
            Some(count) => *count += 1,
            None => {
                self.by_key.insert(key.to_owned(), 1);
            }
        }
    }

    fn write_limits(
        &mut self,
        title: &str,
        policy: &Policy,
        counts: &HashMap<usize, u64>,
    ) -> io::Result<()> {
        if counts.is_empty() {
            return Ok(());
        }
        writeln!(self.out, "{title}")?;
        for (index, limit) in policy.limits().iter().enumerate() {
            if let Some(count) = counts.get(&index) {
                writeln!(self.out, "  {count:>12}  {}", limit.name())?;
            }
        }
        Ok(())
    }
}

impl<W: Write> Report for Summary<W> {
    fn add(&mut self, _policy: &Policy, event: &Event<'_>, decision: &Decision) -> io::Result<()> {
        self.events += 1;
        if event.op != Op::Check {
            return Ok(());
        }
        self.checks += 1;
        if decision.is_allowed() {
            self.allowed += 1;
        } else if decision.refused_by().is_empty() {
            self.partial += 1;
        } else {
            self.count_refusal(&event.key);
        }
        for limit in decision.refused_by().iter() {
            *self.by_limit.entry(limit).or_default() += 1;
        }
        for limit in decision.shadow_refused_by().iter() {
            *self.in_shadow.entry(limit).or_default() += 1;
        }
        Ok(())
    }

    fn finish(&mut self, policy: &Policy) -> io::Result<()> {
        let (by_limit, in_shadow) =
            (std::mem::take(&mut self.by_limit), std::mem::take(&mut self.in_shadow));
        writeln!(self.out, "events   {:>12}", self.events)?;
        writeln!(self.out, "checks   {:>12}", self.checks)?;
        writeln!(self.out, "allowed  {:>12}", self.allowed)?;
        if self.partial > 0 {
            writeln!(self.out, "in part  {:>12}", self.partial)?;
        }
        writeln!(self.out, "refused  {:>12}", self.refused)?;
        self.write_limits("refused by limit", policy, &by_limit)?;
        self.write_limits("would have been refused in shadow by limit", policy, &in_shadow)?;
        let mut keys: Vec<(&String, &u64)> = self.by_key.iter().collect();
        keys.sort_by(|(one, fewer), (other, more)| more.cmp(fewer).then(one.cmp(other)));
        if !keys.is_empty() {
            writeln!(self.out, "most refused keys")?;
        }
        for (key, count) in keys.into_iter().take(TOP) {
            writeln!(self.out, "  {count:>12}  {key:?}")?;
        }
        self.out.flush()
    }
}

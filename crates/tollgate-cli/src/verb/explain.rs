//! `tollgate explain`: the story of a limit, told by the engine itself.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tollgate::{Decision, KeyedLimiter, MAX_LOG, ManualClock, Outcome, Policy};

use crate::failure::Failure;
use crate::meaning::describe;
use tollgate_server::config::{Config, Micros, PolicySpec};
use tollgate_server::decision_line::micros_up;

/// How many retries of a caller that waits as told are shown.
const RETRIES: usize = 5;

/// Tell what a limit does: its numbers, what becomes of a burst, when to retry.
///
/// tollgate explain "100 per minute", or tollgate explain -c FILE --policy NAME
#[derive(clap::Args)]
pub(crate) struct Explain {
    /// A limit in a few words, such as "10/s" or "1000/1h sliding-window"
    #[arg(conflicts_with_all = ["config", "policy"])]
    limit: Vec<String>,
    /// The configuration [default: ./tollgate.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy; may be left out when there is only one
    #[arg(short, long)]
    policy: Option<String>,
}

impl Explain {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let policy = if self.limit.is_empty() {
            Config::load(self.config.as_deref())?.choose(self.policy.as_deref())?
        } else {
            PolicySpec::of_shorthand(&self.limit.join(" "))?
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", describe(&policy))?;
        for line in Story::new(policy.built).tell() {
            writeln!(out, "{line}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One key, fresh at 0s, and a clock that moves as the story does.
struct Story {
    policy: Policy,
    limiter: KeyedLimiter<str, ManualClock>,
    clock: ManualClock,
    elapsed: Duration,
}

impl Story {
    fn new(policy: Policy) -> Story {
        let clock = ManualClock::default();
        let limiter =
            KeyedLimiter::builder(policy.clone()).max_keys(1).clock(clock.clone()).build();
        Story { policy, limiter, clock, elapsed: Duration::ZERO }
    }

    fn tell(mut self) -> Vec<String> {
        if self.policy.reserves_only() {
            let line = "a check never passes: only a reservation holds a place, until it is settled or its \
                        lease is over";
            return vec![line.to_owned()];
        }
        let (passed, mut last) = self.burst();
        let mut lines = vec![format!(
            "a fresh key, asked for one unit after another:\n  at 0s: {passed} passed"
        )];
        if last.is_allowed() {
            lines.push("  and so does any number more".to_owned());
            lines.extend(self.errors());
            return lines;
        }
        lines.push(format!(
            "  then refused by {}: retry in {}",
            self.refusers(&last),
            advice(&last)
        ));
        for _ in 0..RETRIES {
            let Some(wait) = last.retry_after() else { break };
            self.pass(wait);
            let (passed, next) = self.burst();
            lines.push(format!(
                "  at {}: {passed} passed, the next in {}",
                shown(self.elapsed),
                advice(&next)
            ));
            last = next;
        }
        self.pass(last.reset_after());
        lines.push(format!("  at {}, after silence: as fresh", shown(self.elapsed)));
        if let Some(limit) = last.limit() {
            lines.push(format!("a cost above {limit} never passes in one piece"));
        }
        lines
    }

    /// What becomes of reports of errors, if anything does.
    fn errors(&mut self) -> Option<String> {
        for errors in 1..=MAX_LOG {
            if !self.policy.takes_reports() {
                return None;
            }
            self.limiter.report("", Outcome::Error);
            let next = self.limiter.peek_n("", 1);
            if !next.is_allowed() {
                let (refusers, wait) = (self.refusers(&next), advice(&next));
                let plural = if errors == 1 { "error is" } else { "errors are" };
                return Some(format!(
                    "  once {errors} {plural} reported: refused by {refusers}, a probe passes in {wait}"
                ));
            }
        }
        None
    }

    /// Takes all there is, then asks for one more: how many passed, and the last answer.
    fn burst(&mut self) -> (u64, Decision) {
        let first = self.limiter.check_n("", 1);
        if !first.is_allowed() || !first.shadow_refused_by().is_empty() {
            return (u64::from(first.is_allowed()), first);
        }
        let rest = first.remaining().unwrap_or(0);
        if rest > 0 {
            let _ = self.limiter.check_n("", rest);
        }
        (1 + rest, self.limiter.peek_n("", 1))
    }

    fn refusers(&self, decision: &Decision) -> String {
        self.policy.names(decision.refused_by()).collect::<Vec<&str>>().join(" and ")
    }

    fn pass(&mut self, wait: Duration) {
        self.clock.advance(wait);
        self.elapsed += wait;
    }
}

fn advice(refusal: &Decision) -> String {
    refusal.retry_after().map_or_else(|| "all eternity".to_owned(), |wait| shown(wait).to_string())
}

fn shown(duration: Duration) -> Micros {
    Micros(micros_up(duration))
}

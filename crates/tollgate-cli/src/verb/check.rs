//! `tollgate check`: one decision.

use std::io::Write;
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use tollgate::{Clock, Decision, LimitDecision, MonotonicClock, Policy};
use tollgate_core::{Logs, State};

use crate::config::{Config, Micros};
use crate::decision_line::{DecisionLine, micros_up};
use crate::failure::Failure;

/// Decide once about a key: exit code 0 allowed, 1 refused, 2 error.
///
/// The key is fresh on every run: state is kept by a server, and asking one comes later.
#[derive(clap::Args)]
pub(crate) struct Check {
    /// A policy of the configuration
    policy: String,
    /// Whose budget to charge
    key: String,
    /// Units to charge; 0 only looks
    // Read by `whole`, which complains in one line.
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true)]
    cost: String,
    /// The configuration [default: ./tollgate.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the decision as JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let cost = whole("--cost", &self.cost)?;
        let config = Config::load(self.config.as_deref())?;
        if config.store_url != "memory:" {
            return Err(
                format!("store {:?} is not available yet; use memory:", config.store_url).into()
            );
        }
        let policy = config.choose(Some(&self.policy))?.runnable()?.built;
        let (decision, limits) = decide(&policy, cost);
        let mut out = std::io::stdout().lock();
        if self.json {
            let answer = DecisionLine::new(&policy, &self.key, cost, &decision);
            let names = policy.limits().iter().map(|limit| limit.name());
            let limits =
                names.zip(&limits).map(|(name, limit)| LimitAnswer::new(name, limit)).collect();
            let answer =
                FullAnswer { answer, policy: policy.name(), source: "authoritative", limits };
            serde_json::to_writer(&mut out, &answer).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", sentence(&policy, &decision))?;
        }
        // A partial grant is no refusal: then no limit is named.
        let refused = !decision.is_allowed() && !decision.refused_by().is_empty();
        Ok(if refused { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }
}

fn whole(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|error: ParseIntError| {
        let most = match error.kind() {
            IntErrorKind::PosOverflow => format!(" to {}", u64::MAX),
            _ => String::new(),
        };
        format!("{name} must be a whole number from 0{most}; found {text}")
    })
}

fn decide(policy: &Policy, cost: u64) -> (Decision, Vec<LimitDecision>) {
    let now = MonotonicClock::default().now();
    let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
    let mut state = State::new(&mut words, &mut logs);
    let verdict = policy.judge(state.view(), now, cost);
    policy.record(&mut state, now, cost, verdict);
    let decision = policy.answer(state.view(), now, cost, verdict);
    let limits = policy.each(state.view(), now, cost, verdict).collect();
    (decision, limits)
}

fn sentence(policy: &Policy, decision: &Decision) -> String {
    let shown = |duration| Micros(micros_up(duration));
    if decision.is_allowed() {
        let left = decision
            .remaining()
            .map_or_else(String::new, |remaining| format!("; {remaining} left"));
        return format!("allowed{left}; as fresh again in {}", shown(decision.reset_after()));
    }
    let retry = match decision.retry_after() {
        Some(wait) => format!("retry in {}", shown(wait)),
        None => "it will never pass: the cost is above the limit".to_owned(),
    };
    if decision.refused_by().is_empty() {
        return format!("allowed in part: {} granted; for all of it, {retry}", decision.granted());
    }
    let names: Vec<&str> = policy.names(decision.refused_by()).collect();
    format!("refused by {}; {retry}", names.join(" and "))
}

/// The decision, where it comes from, and each limit's own numbers.
#[derive(Serialize)]
struct FullAnswer<'a> {
    #[serde(flatten)]
    answer: DecisionLine<'a>,
    policy: &'a str,
    source: &'static str,
    limits: Vec<LimitAnswer<'a>>,
}

#[derive(Serialize)]
struct LimitAnswer<'a> {
    name: &'a str,
    allowed: bool,
    limit: Option<u64>,
    remaining: Option<u64>,
    retry_after_us: Option<u64>,
    next_unit_us: Option<u64>,
    reset_after_us: u64,
}

impl<'a> LimitAnswer<'a> {
    fn new(name: &'a str, decision: &LimitDecision) -> LimitAnswer<'a> {
        LimitAnswer {
            name,
            allowed: decision.allowed,
            limit: decision.limit,
            remaining: decision.remaining,
            retry_after_us: decision.retry_after.map(micros_up),
            next_unit_us: decision.next_unit.map(micros_up),
            reset_after_us: micros_up(decision.reset_after),
        }
    }
}

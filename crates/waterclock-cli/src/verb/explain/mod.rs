//! `waterclock explain`: what a limit does to one key, as the engine decides it.

mod story;
mod together;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;
use waterclock::{Limit, Policy};
use waterclock_config::english::{Warning, bound, describe, idle_limits, sentence};
use waterclock_config::{Config, Invalid, Micros, PoliciesJson, PolicyConfig};
use waterclock_rehearse::simulate::{limits_of_words, split_limits};
use waterclock_rehearse::terminal::{BAD, GOOD, styled};

use self::story::{Errors, Step, Story};
use self::together::{Most, Together};
use crate::configuration::load_policy;
use crate::output::{Failure, described, print_json, warn};

/// Explain limits: their numbers, what happens to a burst, when to retry, and what several do together.
///
/// Examples: waterclock explain "100 per minute", waterclock explain "10/s" "1000/1h sliding-window", or
/// waterclock explain -c FILE --policy NAME
#[derive(clap::Args)]
pub(crate) struct Explain {
    /// Limits in a few words, such as "10/s" or "1000/1h sliding-window"; several are one policy
    #[arg(conflicts_with_all = ["config", "policy"])]
    limit: Vec<String>,
    /// The configuration [default: ./waterclock.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy; may be left out when there is only one
    #[arg(short, long)]
    policy: Option<String>,
    /// Print the numbers and the story as JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let policy = if self.limit.is_empty() {
            load_policy(self.config.as_deref(), self.policy.as_deref())?
        } else {
            limits_of_words("example", &split_limits(&self.limit))?
        };
        let story = Story::of(Policy::clone(policy.policy()));
        // What runs in shadow, for some keys at least, bounds nothing.
        let together =
            if is_enforced(&policy) { Together::of(policy.limits()) } else { Vec::new() };
        if self.json {
            print_json(&Account::new(policy, story, together)?)?;
        } else {
            let mut out = anstream::stdout().lock();
            writeln!(out, "{}", described(&describe(&policy)))?;
            let together = together.iter().flat_map(Together::lines);
            lines(&story)
                .into_iter()
                .chain(together)
                .try_for_each(|line| writeln!(out, "{line}"))?;
            idle_limits(&policy).iter().for_each(|idle| warn(&idle.message));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Whether the policy refuses, whatever the key.
fn is_enforced(policy: &PolicyConfig) -> bool {
    !policy.policy().is_shadow() && policy.scope.rollout().is_everybody()
}

/// The story for people.
fn lines(story: &Story) -> Vec<String> {
    let Some((first, retries)) = story.steps.split_first() else {
        let line = "a check never passes: only a reservation takes a slot, until it is settled or its lease ends";
        return vec![line.to_owned()];
    };
    let one = if story.counts_several { "one of each unit" } else { "one unit" };
    let mut lines = vec![format!("a fresh key, checked for {one} after another:")];
    lines.push(format!("  at 0 s: {}", passed(first)));
    if story.unbounded {
        lines.push("  and any number more".to_owned());
        lines.extend(story.errors.as_ref().map(errors));
        return lines;
    }
    lines.push(format!(
        "  then {} by {}: retry in {}",
        styled(BAD, "refused"),
        first.refused_by.join(" and "),
        wait(first.retry_after_us)
    ));
    lines.extend(retries.iter().map(|step| {
        let next = wait(step.retry_after_us);
        format!("  at {}: {}, the next in {next}", Micros(step.at_us).for_people(), passed(step))
    }));
    if let Some(fresh) = story.fresh_at_us {
        lines.push(format!(
            "  at {}, without further requests: fresh again",
            Micros(fresh).for_people()
        ));
    }
    if let Some(most) = story.most_at_once {
        lines.push(format!("a cost above {most} never passes whole"));
    }
    lines
}

fn passed(step: &Step) -> String {
    styled(GOOD, format!("{} passed", step.passed))
}

fn errors(errors: &Errors) -> String {
    let Errors { reported, .. } = errors;
    let are = if *reported == 1 { "error is" } else { "errors are" };
    format!(
        "  once {reported} {are} reported: {} by {}, a probe passes in {}",
        styled(BAD, "refused"),
        errors.refused_by.join(" and "),
        wait(errors.retry_after_us)
    )
}

fn wait(micros: Option<u64>) -> String {
    micros.map_or_else(|| "never".to_owned(), |micros| Micros(micros).for_people())
}

#[derive(Serialize)]
/// The numbers of a policy, what they mean, and the story, for programs.
struct Account {
    policy: String,
    /// Numbers, as `validate --json` shows them for a whole file.
    settings: Value,
    limits: Vec<Meaning>,
    story: Story,
    /// What several limits do together; empty for one.
    together: Vec<Together>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
}

#[derive(Serialize)]
struct Meaning {
    name: String,
    means: String,
    bound: String,
    /// The bound as a number: the most units in any window as long as the limit's period.
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<Most>,
}

impl Account {
    fn new(
        policy: PolicyConfig,
        story: Story,
        together: Vec<Together>,
    ) -> Result<Account, Invalid> {
        let (warnings, is_enforced) = (idle_limits(&policy), is_enforced(&policy));
        let meaning = |limit: &Limit| Meaning {
            name: limit.name().to_owned(),
            means: sentence(limit),
            bound: bound(limit),
            most: Most::of(limit).filter(|_| is_enforced && !limit.is_shadow()),
        };
        let (name, limits) =
            (policy.name().to_owned(), policy.limits().iter().map(meaning).collect());
        let mut alone = Config::read("the policy", "")?;
        alone.policies.push(policy);
        let mut shown = serde_json::to_value(PoliciesJson::new(&alone)).unwrap_or_default();
        let settings = shown["policies"][&*name].take();
        Ok(Account { settings, policy: name, limits, story, together, warnings })
    }
}

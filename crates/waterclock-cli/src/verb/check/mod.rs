//! `waterclock check`: one decision.

mod answer;

use std::io::{self, Write};
use std::num::IntErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use waterclock::{
    Answer, Charge, Clock, Cost, CostError, Factor, FactorError, MonotonicClock, Policy, Source,
    Store, StoreError, Verb,
};
use waterclock_config::{Address, DecisionLine, PolicyConfig, StoreConfig};
use waterclock_core::store::{Decide as _, Logs, State};
use waterclock_redis::RedisStoreBuilder;
use waterclock_rehearse::{Error, register_variants, resolve, warning_about};
use waterclock_server::redis_store;

use self::answer::{Question, Summary};
use super::block_on;
use crate::configuration::load;
use crate::output::{Failure, print_json, warn};
use crate::server::{Access, Server, ServerAddress};

/// Make one decision: exit code 0 allowed, 1 refused, 2 error.
///
/// If the configuration or WATERCLOCK_STORE_URL names a Redis store, the key is charged there. With memory: nothing is
/// kept, and the key is fresh on every run.
///
/// With --server a running server decides, by its own policies: waterclock check --server
/// http://127.0.0.1:8080 POLICY KEY
#[derive(clap::Args)]
pub(crate) struct Check {
    /// A policy of the configuration
    policy: String,
    /// The key to charge
    key: String,
    /// Units to charge; 0 only peeks. For a policy that counts several units: requests=1,tokens=800 [default: 1]
    // Parsed by `whole`, whose error is one line.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cost: Option<String>,
    /// Check as a caller of this tier
    #[arg(long, value_name = "NAME")]
    tier: Option<String>,
    /// Scale the limits for this check: 0.5 doubles what is admitted, 2 halves it, 0 disables the limits
    #[arg(long, value_name = "DECIMAL", allow_negative_numbers = true)]
    factor: Option<String>,
    /// The configuration [default: ./waterclock.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ask a running server instead, such as http://127.0.0.1:8080, or https://… for TLS
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    server: Option<String>,
    #[command(flatten)]
    access: Access,
    /// Print the decision as JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let cost = self.cost.as_deref().map(whole).transpose()?;
        match (&self.server, self.access.given()) {
            (Some(server), _) => self.ask(server, cost),
            (None, Some(flag)) => {
                Err(format!("{flag} is for a server; name it with --server").into())
            }
            (None, None) => self.decide(cost),
        }
    }

    /// By a server's policies.
    fn ask(&self, server: &str, cost: Option<Cost>) -> Result<ExitCode, Failure> {
        let server = Server::new(ServerAddress::parse_http(server)?, &self.access)?;
        let (policy, key, tier) = (&*self.policy, &*self.key, self.tier.as_deref());
        let question = Question { policy, key, cost, tier, factor: self.factor()? };
        let answer = question.ask(&server)?;
        if self.json {
            code_after(writeln!(std::io::stdout(), "{}", answer.json), &answer.summary)
        } else {
            print(&answer.summary)
        }
    }

    /// By the configuration's policies.
    fn decide(&self, cost: Option<Cost>) -> Result<ExitCode, Failure> {
        let mut config = load(self.config.as_deref())?;
        let chosen = config.choose(Some(&self.policy))?;
        warning_about(&chosen).iter().for_each(|warning| warn(warning));
        let cost = Verb::Check.price(chosen.policy(), cost.as_ref());
        let cost = cost.map_err(|error| format!("--cost: {error}"))?;
        if let Some(tier) = &self.tier {
            chosen.scope.known_tier(tier).map_err(|error| format!("--tier: {error}"))?;
        }
        let resolved =
            resolve(&chosen, &self.key, (self.tier.as_deref(), self.factor()?), cost.clone());
        let (policy, factor) = (resolved.policy(), resolved.resolution().factor);
        let scaled = factor.map(|factor| policy.scaled(policy.name(), factor)).transpose();
        let scaled = scaled.map_err(|error| format!("--factor: {error}"))?;
        let policy = scaled.as_ref().unwrap_or(policy);
        let answer = match (resolved.resolution().answer(&cost), config.store.address()?) {
            (Some(answer), _) => answer,
            // A policy without limits needs no store.
            (None, Address::Redis(url)) if policy.words() > 0 => {
                let charge = Charge::new(policy.name(), self.key.as_bytes(), cost.clone())
                    .with_factor(factor);
                in_redis(&url, &config.store, &chosen, charge)?
            }
            (None, _) => in_memory(policy, &cost)?,
        };
        let answer = resolved.report(answer);
        let summary = Summary::new(policy, &answer);
        if !self.json {
            return print(&summary);
        }
        let line = DecisionLine::in_full(chosen.name(), policy, &self.key, &cost, &answer);
        code_after(print_json(&line), &summary)
    }
}

fn print(summary: &Summary) -> Result<ExitCode, Failure> {
    code_after(writeln!(anstream::stdout(), "{}", summary.sentence()), summary)
}

/// The exit code, even if the output is not read.
fn code_after(written: io::Result<()>, summary: &Summary) -> Result<ExitCode, Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ if summary.is_refusal() => Ok(ExitCode::from(1)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

impl Check {
    fn factor(&self) -> Result<Option<Factor>, String> {
        let factor = self.factor.as_deref().map(str::parse).transpose();
        factor.map_err(|error: FactorError| format!("--factor: {error}"))
    }
}

fn whole(text: &str) -> Result<Cost, String> {
    text.parse().map_err(|wrong: CostError| {
        if text.contains('=') {
            return format!("--cost: {wrong}");
        }
        let error = text.parse::<u64>().err();
        let is_large = error.is_some_and(|error| *error.kind() == IntErrorKind::PosOverflow);
        let most = if is_large { format!(" to {}", u64::MAX) } else { String::new() };
        format!("--cost must be a whole number from 0{most}; found {text}")
    })
}

/// A decision about a key without state.
fn in_memory(policy: &Policy, cost: &Cost) -> Result<Answer, String> {
    if !cost.is_zero() && policy.reserves_only() {
        return Err(StoreError::reserves_only(policy.name()).to_string());
    }
    let now = MonotonicClock::default().now();
    let (mut words, mut logs) = (vec![0; policy.words()], Logs::new());
    let mut state = State::new(&mut words, &mut logs);
    let verdict = policy.judge(state.view(), now, cost);
    policy.record(&mut state, now, cost, verdict);
    Ok(Answer::of(policy, state.view(), now, cost, verdict))
}

/// A decision by a Redis store, or by what its policy falls back to.
fn in_redis(
    url: &str,
    store: &StoreConfig,
    policy: &PolicyConfig,
    charge: Charge<'_>,
) -> Result<Answer, Failure> {
    let asked = block_on(ask(redis_store(store, url)?, policy, charge))?;
    let (answer, failure) = asked.map_err(|error| why(url, error))?;
    warn_of_fallback(url, answer.source, failure);
    Ok(answer)
}

/// The answer, and the failure of the store if there was one.
async fn ask(
    settings: RedisStoreBuilder,
    policy: &PolicyConfig,
    charge: Charge<'_>,
) -> Result<(Answer, Option<StoreError>), StoreError> {
    let store = settings.start()?;
    // One decision needs no lease.
    let serving = policy.serving.with_lease(None);
    store.set_policy_as(Policy::clone(policy.policy()), serving).await?;
    register_variants(policy, &store).await?;
    // The deadline is for an answer, and connecting takes longer. So a peek, which writes nothing, connects first; and
    // it reports what is wrong, which a fallback's answer does not.
    let now = MonotonicClock::default().now();
    let failure = store.apply_at(now, Verb::Peek, std::slice::from_ref(&charge)).await.err();
    match store.apply(Verb::Check, &[charge]).await {
        Ok(answers) => {
            answers.into_iter().next().map(|answer| (answer, failure)).ok_or_else(|| {
                StoreError::failed(waterclock::Failure::BadReply, "no answer to the only question")
            })
        }
        Err(error) => Err(failure.unwrap_or(error)),
    }
}

/// What is wrong, and what to change in the configuration.
fn why(url: &str, error: StoreError) -> String {
    let sentence = Error::store(url, error).to_string();
    match sentence.contains("UnknownIssuer") {
        true => format!("{sentence}, or name the authority's file as `ca` in [store]"),
        false => sentence,
    }
}

/// Warns if the answer is not the store's.
fn warn_of_fallback(url: &str, source: Source, failure: Option<StoreError>) {
    let decided = match source {
        Source::Local => "decided by this node's share of the limits",
        Source::Policy => "allowed by `on_store_error`",
        _ => return,
    };
    let late = || StoreError::failed(waterclock::Failure::Timeout, "no answer within the deadline");
    warn(&format!("{decided}, because {}", why(url, failure.unwrap_or_else(late))));
}

//! `waterclock check`: one decision.

mod answer;
mod memory;
mod remote;
mod served;

use std::io::{self, Write};
use std::num::IntErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use self::answer::Told;
use crate::failure::{Failure, say};
use crate::file::print_json;
use crate::server::{Server, ServerAddress, Token, Trust};
use crate::stage::Ruling;
use waterclock::store::Decide as _;
use waterclock::{Answer, Charge, Cost, CostError, Source, Timestamp, Verb};
use waterclock_config::{Address, Config, PolicyConfig, did_you_mean};
use waterclock_server::decision_line::DecisionLine;

/// Decide once about a key: exit code 0 allowed, 1 refused, 2 error.
///
/// Where the configuration names a Redis store, or WATERCLOCK_STORE_URL does, state lives there and
/// the key is charged. With memory: nothing is kept, and the key is fresh on every run.
///
/// With --server a running server decides, by its own policies: waterclock check --server
/// http://127.0.0.1:8080 POLICY KEY
#[derive(clap::Args)]
pub(crate) struct Check {
    /// A policy of the configuration
    policy: String,
    /// Whose budget to charge
    key: String,
    /// Units to charge; 0 only looks. Where a policy counts several: requests=1,tokens=800 [default: 1]
    // Read by `whole`, which complains in one line.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cost: Option<String>,
    /// The caller's tier, of those that the policy has
    #[arg(long, value_name = "NAME")]
    tier: Option<String>,
    /// The configuration [default: ./waterclock.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A running server that decides instead, such as http://127.0.0.1:8080, or https://… for TLS
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    server: Option<String>,
    #[command(flatten)]
    token: Token,
    #[command(flatten)]
    trust: Trust,
    /// Print the decision as JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let cost = self.cost.as_deref().map(whole).transpose()?;
        match &self.server {
            Some(server) => self.ask(server, cost),
            None if self.token.is_given() => {
                Err("--token-file is for a server; name it with --server".to_owned().into())
            }
            None if self.trust.is_given() => {
                Err("--ca is for a server; name it with --server".to_owned().into())
            }
            None => self.decide(cost),
        }
    }

    /// By a server's policies.
    fn ask(&self, server: &str, cost: Option<Cost>) -> Result<ExitCode, Failure> {
        let server = Server::new(ServerAddress::parse_http(server)?, &self.token, &self.trust)?;
        let (policy, key, tier) = (&*self.policy, &*self.key, self.tier.as_deref());
        let question = served::Question { policy, key, cost, tier };
        let answer = question.ask(&server)?;
        if self.json {
            code_after(writeln!(std::io::stdout(), "{}", answer.json), &answer.told)
        } else {
            say_it(&answer.told)
        }
    }

    /// By the configuration's policies.
    fn decide(&self, cost: Option<Cost>) -> Result<ExitCode, Failure> {
        let mut config = Config::load(self.config.as_deref())?;
        let ruling = Ruling::new(config.choose(Some(&self.policy))?)?;
        let spec = ruling.spec();
        self.warn_of_tier(spec);
        let cost = Verb::Check.price(&spec.built, cost.as_ref());
        let cost = cost.map_err(|error| format!("--cost: {error}"))?;
        let turn = ruling.turn_of(&self.key, self.tier.as_deref(), cost.clone());
        let policy = turn.policy();
        let at_once = turn.standing().answer(policy, &cost).or_else(|| {
            let decision = turn.answer(Timestamp::default())?;
            Some(Answer { decision, limits: Vec::new(), source: Source::Policy })
        });
        let mut answer = match (at_once, config.store.address()?) {
            (Some(answer), _) => answer,
            // What limits nothing takes no store.
            (None, Address::Redis(url)) if policy.words() > 0 => {
                let (policy, key) = (policy.name(), self.key.as_bytes());
                let charge = Charge { policy, key, cost: cost.clone() };
                remote::decide(&url, &config.store, &ruling, charge)?
            }
            (None, _) => memory::decide(policy, &cost)?,
        };
        answer.decision = turn.told(&self.key, answer.decision);
        let told = Told::new(policy, &answer);
        if !self.json {
            return say_it(&told);
        }
        let answer = DecisionLine::in_full(&spec.name, policy, &self.key, &cost, &answer);
        code_after(print_json(&answer), &told)
    }
}

fn say_it(told: &Told) -> Result<ExitCode, Failure> {
    code_after(writeln!(anstream::stdout(), "{}", told.sentence()), told)
}

/// The code says it, too, whether or not anybody reads the words: a refusal stays one.
fn code_after(written: io::Result<()>, told: &Told) -> Result<ExitCode, Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ if told.is_refusal() => Ok(ExitCode::from(1)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

impl Check {
    /// On a server an unknown tier is nothing special; here it may be a slip.
    fn warn_of_tier(&self, spec: &PolicyConfig) {
        if let Some(name) = self.tier.as_deref()
            && spec.tiers.iter().all(|tier| tier.name != name)
        {
            let hint = did_you_mean(name, spec.tiers.iter().map(|tier| tier.name.as_str()));
            say(&format!("warning: policy `{}` has no tier `{name}`{hint}", spec.name));
        }
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

//! What a server would refuse about a configuration, found without starting one: `validate` and `serve` ask the same.

use std::path::Path;

use tokio::runtime::Handle;
use waterclock::{Limit, Policy, StoreError};
use waterclock_config::english::Warning;
use waterclock_config::{Address, Config, Invalid, PolicyConfig, PolicyPart, Problem};
use waterclock_redis::{RedisStore, RedisStoreBuilder, check_names};

use crate::engine::{examine_snapshot, redis_store};
use crate::server::Identity;
use crate::tls::Certificates;

/// What becomes of environment variables and files that a configuration names and that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outside {
    /// They are errors: a server starts here.
    Needed,
    /// They are warnings: the server starts on another machine.
    Elsewhere,
}

/// Finds what a server would refuse, as far as that is known without opening sockets or asking the store. Reads files,
/// writes none. Returns warnings.
///
/// # Errors
///
/// Every problem, with its place where it has one.
pub fn examine(config: &Config, outside: Outside) -> Result<Vec<Warning>, Invalid> {
    let mut found = Findings { problems: Vec::new(), warnings: Vec::new(), outside };
    match config.server.listen() {
        Ok(listen) if [listen.http, listen.grpc, listen.resp].iter().all(Option::is_none) => {
            let message = "every listener is turned off; give `http`, `grpc` or `resp` an address";
            found.problems.push(config.server_problem(message));
        }
        listen => found.check(listen, true),
    }
    found.check(Identity::new(config), config.server.tokens().is_ok());
    let tls = Certificates::new(config).map_err(|invalid| config.tls_error(invalid));
    found.check(tls, config.server.has_certificates());
    found.check(store(config), config.store.has_values() && has_directory(config));
    found.problems.extend(problems_of_policies(config));
    match found.problems.is_empty() {
        true => Ok(found.warnings),
        false => Err(found.problems.into_iter().collect()),
    }
}

struct Findings {
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
    outside: Outside,
}

impl Findings {
    fn check<T>(&mut self, result: Result<T, Invalid>, is_there: bool) {
        match result {
            Ok(_) => {}
            Err(invalid) if !is_there && self.outside == Outside::Elsewhere => {
                let about = |problem: Problem| {
                    let message = problem.to_string();
                    Warning::new("not-here", message).at(problem.place)
                };
                self.warnings.extend(invalid.into_iter().map(about));
            }
            Err(invalid) => self.problems.extend(invalid),
        }
    }
}

fn store(config: &Config) -> Result<(), Invalid> {
    let store = &config.store;
    match (store.address()?, &store.snapshot) {
        (Address::Memory, Some(path)) => {
            examine_snapshot(path).map_err(|why| store.snapshot_error(&why))
        }
        (Address::Memory, None) => Ok(()),
        (Address::Redis(url), _) => {
            let builder = redis_store(store, &url)?;
            // It connects when it is first called, which takes a runtime.
            let started = Handle::try_current().ok().map(|_| builder.start());
            let unfit = |error: StoreError| store.url_error(&format!("cannot be used: {error}"));
            started.transpose().map(drop).map_err(unfit)
        }
    }
}

/// Whether the directory of the snapshot is on this machine.
fn has_directory(config: &Config) -> bool {
    let path = config.store.snapshot.as_deref().and_then(Path::parent);
    path.is_none_or(|directory| directory.as_os_str().is_empty() || directory.exists())
}

/// Finds what the store would refuse about policies.
///
/// # Errors
///
/// Every problem, with its place.
pub(crate) fn examine_policies(config: &Config) -> Result<(), Invalid> {
    let problems = problems_of_policies(config);
    if problems.is_empty() { Ok(()) } else { Err(problems.into_iter().collect()) }
}

fn problems_of_policies(config: &Config) -> Vec<Problem> {
    // In memory, every policy can be decided exactly.
    let Ok(Address::Redis(url)) = config.store.address() else { return Vec::new() };
    let builder = RedisStore::builder(&url).nodes(config.store.nodes);
    let names = config.policies.iter().map(PolicyConfig::name);
    let twin = check_names(names).err().and_then(|(at, error)| {
        Some(config.policy_problem(config.policies.get(at)?, PolicyPart::Name, error.to_string()))
    });
    let unfit = |policy| {
        let (part, error) = unfit(&builder, policy)?;
        Some(config.policy_problem(policy, part, error.to_string()))
    };
    config.policies.iter().filter_map(unfit).chain(twin).collect()
}

/// The first part of a policy that Redis cannot decide.
fn unfit(builder: &RedisStoreBuilder, config: &PolicyConfig) -> Option<(PolicyPart, StoreError)> {
    let (policy, serving) = (config.policy(), config.serving);
    let mode = policy.mode();
    let unleased = serving.with_lease(None);
    if let Err(error) = builder.check_policy(policy, unleased) {
        let alone = |limit: &Limit| {
            let policy = Policy::new(policy.name(), [limit.clone()]);
            policy.and_then(|alone| alone.with_mode(mode))
        };
        let is_unfit = |limit: &Limit| {
            alone(limit).is_ok_and(|alone| builder.check_policy(&alone, unleased).is_err())
        };
        let at = config.limits().iter().position(is_unfit);
        return Some((at.map_or(PolicyPart::Name, PolicyPart::Limit), error));
    }
    if let Err(error) = builder.check_policy(policy, serving) {
        return Some((PolicyPart::Lease, error));
    }
    let tiers = config.tiers.iter().enumerate().filter(|(_, tier)| tier.is_shared());
    let tiers = tiers.map(|(at, tier)| (PolicyPart::Tier(at), &tier.policy));
    let overrides = config.overrides.iter().enumerate();
    let overrides = overrides.map(|(at, (_, policy))| (PolicyPart::Override(at), policy));
    tiers
        .chain(overrides)
        .find_map(|(part, policy)| Some((part, builder.check_policy(policy, serving).err()?)))
}

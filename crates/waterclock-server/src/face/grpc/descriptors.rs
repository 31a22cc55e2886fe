//! One request decided as a whole: from descriptors to checks, and the calls of the engine that takes.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tonic::Status;
use waterclock::{Source, StoreError, Verb};

use super::request::{Descriptor, Hits, LimitOverride};
use crate::engine::{ActivePolicy, Caller, Check, Plan, Rate, Reply, TIER};
use crate::observe::Face;
use crate::rules::{Effect, Rule};
use crate::server::Server;

/// How long the store may take: Envoy waits 20 ms by default.
const STORE_DEADLINE: Duration = Duration::from_millis(15);
/// The deadline of a whole request.
const REQUEST_DEADLINE: Duration = Duration::from_millis(18);

/// The outcome of one descriptor.
pub(super) enum Outcome<'p> {
    /// No rule limits it.
    Unlimited,
    /// Its rule, or its own limit of 0, refuses everything.
    Refused(&'p Rule),
    /// A policy has decided.
    Decided(Box<Decided<'p>>),
}

/// A policy's answer to one descriptor.
pub(super) struct Decided<'p> {
    pub(super) rule: &'p Rule,
    pub(super) policy: &'p ActivePolicy,
    pub(super) rate: Option<Rate>,
    /// A refund is never refused; its reply is that of a peek with the same cost.
    pub(super) is_refund: bool,
    pub(super) reply: Reply,
}

impl Decided<'_> {
    /// Whether this descriptor has refused, and not another of the same request.
    pub(super) fn has_refused(&self) -> bool {
        let answer = &self.reply.answer;
        let by_itself = !answer.decision.refused_by().is_empty()
            || answer.source == Source::Policy
            || self.reply.is_held_up;
        !self.is_refund && self.reply.is_refusal() && by_itself
    }
}

/// What applies to a descriptor before the engine is called.
enum Matched<'p> {
    Unlimited,
    Refused(&'p Rule),
    Limited(&'p Rule, &'p ActivePolicy),
}

/// Why there is no decision.
pub(super) enum Failed {
    /// The engine has counted that for each policy.
    Store(Status),
    TimedOut,
}

/// Decides about all descriptors, in their order. Unless all are admitted, nothing is charged and nothing refunded.
pub(super) async fn decide<'p>(
    server: &Server,
    plan: &'p Plan,
    domain: &str,
    descriptors: &[Descriptor<'_>],
) -> Result<Vec<Outcome<'p>>, Failed> {
    let now = Instant::now();
    let matched = match_rules(plan, domain, descriptors);
    // Peeks first, which can only refuse; then the charges, all or none; then the refunds. Mostly this is one call.
    let mut batches =
        [Verb::Peek, Verb::Check, Verb::Refund].map(|verb| (verb, Vec::new(), Vec::new()));
    for (at, (descriptor, matched)) in descriptors.iter().zip(&matched).enumerate() {
        if let Matched::Limited(rule, policy) = matched {
            let (_, places, checks) = &mut batches[match descriptor.hits {
                Hits::Peek => 0,
                Hits::Charge(_) => 1,
                Hits::Refund(_) => 2,
            }];
            places.push(at);
            checks.push(to_check(domain, rule, policy, descriptor));
        }
    }
    let mut refused = matched.iter().any(|matched| matches!(matched, Matched::Refused(_)));
    let mut replies: Vec<Option<Reply>> = vec![None; descriptors.len()];
    let deciding = async {
        for (mut verb, places, mut checks) in batches {
            if checks.is_empty() {
                continue;
            }
            if refused {
                if verb == Verb::Refund {
                    let nothing = |check: &mut Check<'_>| {
                        check.cost = check.policy.scope().policy().requests(0);
                    };
                    checks.iter_mut().for_each(nothing);
                }
                verb = Verb::Peek;
            }
            let deadline = (now + STORE_DEADLINE).saturating_duration_since(Instant::now());
            let caller = Caller { face: Face::Grpc, deadline: Some(deadline) };
            for (at, reply) in
                places.into_iter().zip(server.engine.apply(caller, verb, &checks).await?)
            {
                refused |= reply.is_refusal();
                replies[at] = Some(reply);
            }
        }
        Ok(())
    };
    timeout_at(now + REQUEST_DEADLINE, deciding)
        .await
        .map_err(|_| Failed::TimedOut)?
        .map_err(|error| Failed::Store(store_failed(&error)))?;
    let outcome = |((descriptor, matched), reply): ((&Descriptor<'_>, _), _)| match (matched, reply)
    {
        (Matched::Limited(rule, policy), Some(reply)) => {
            let is_refund = matches!(descriptor.hits, Hits::Refund(_));
            let rate = descriptor.rate();
            Outcome::Decided(Box::new(Decided { rule, policy, rate, is_refund, reply }))
        }
        (Matched::Refused(rule), _) => Outcome::Refused(rule),
        (Matched::Unlimited | Matched::Limited(..), _) => Outcome::Unlimited,
    };
    Ok(descriptors.iter().zip(matched).zip(replies).map(outcome).collect())
}

fn to_check<'a>(
    domain: &str,
    rule: &Rule,
    policy: &'a ActivePolicy,
    descriptor: &Descriptor<'a>,
) -> Check<'a> {
    let units = match descriptor.hits {
        // A peek asks whether one unit is left.
        Hits::Peek => 1,
        Hits::Charge(units) | Hits::Refund(units) => units,
    };
    let tier = descriptor.entries.iter().find(|(key, _)| *key == TIER);
    Check {
        policy,
        key: rule.key(policy, domain, &descriptor.entries),
        cost: policy.scope().policy().requests(units),
        tier: tier.map(|(_, tier)| String::from_utf8_lossy(tier)),
        rate: descriptor.rate(),
    }
}

/// A store that fails is unavailable, whatever the failure; it never refuses.
fn store_failed(error: &StoreError) -> Status {
    match error {
        StoreError::Failed { kind, .. } | StoreError::Denied { kind, .. } => {
            Status::unavailable(format!("the store failed ({})", kind.name()))
        }
        StoreError::BadCost(_) | StoreError::Unfit(_) => {
            Status::failed_precondition(error.to_string())
        }
        _ => Status::internal(error.to_string()),
    }
}

/// Finds the rule of each descriptor, and leaves out those that the rule of another one replaces.
fn match_rules<'p>(
    plan: &'p Plan,
    domain: &str,
    descriptors: &[Descriptor<'_>],
) -> Vec<Matched<'p>> {
    let find = |descriptor: &Descriptor<'_>| {
        plan.rules().find(domain, &descriptor.entries).map(|rule| &**rule)
    };
    let rules: Vec<Option<&Rule>> = descriptors.iter().map(find).collect();
    let is_replaced = |rule: &Rule| {
        let mut replaced = rules.iter().flatten().flat_map(|other| other.replaces());
        rule.name().is_some_and(|name| replaced.any(|other| other == name))
    };
    let matched = |(descriptor, rule): (&Descriptor<'_>, &Option<&'p Rule>)| {
        let Some(rule) = rule.filter(|rule| !is_replaced(rule)) else { return Matched::Unlimited };
        match (&rule.effect, descriptor.limit) {
            (Effect::Admit, _) => Matched::Unlimited,
            (Effect::Refuse, _) => Matched::Refused(rule),
            // A refund of what was never admitted is no reason to refuse.
            (_, Some(LimitOverride::Zero)) if matches!(descriptor.hits, Hits::Refund(_)) => {
                Matched::Unlimited
            }
            (_, Some(LimitOverride::Zero)) => Matched::Refused(rule),
            (Effect::Limit(policy), _) => Matched::Limited(rule, policy),
        }
    };
    descriptors.iter().zip(&rules).map(matched).collect()
}

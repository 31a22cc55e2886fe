//! One request decided as a whole: from descriptors to checks, and the calls of the engine that takes.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tonic::Status;
use waterclock::{Source, StoreError, Verb};

use super::request::{Descriptor, Hits, LimitOverride};
use super::{bad_key, store_failed};
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
        let by_itself = !answer.decision.refused_by().is_empty() || answer.source == Source::Policy;
        !self.is_refund && self.reply.is_refusal() && by_itself
    }
}

/// What applies to a descriptor before the engine is called.
enum Matched<'p> {
    Unlimited,
    Refused(&'p Rule),
    Limited(&'p Rule, &'p ActivePolicy),
}

/// Decides about all descriptors, in their order. Unless all are admitted, nothing is charged and nothing refunded.
pub(super) async fn decide<'p>(
    server: &Server,
    plan: &'p Plan,
    domain: &str,
    descriptors: &[Descriptor<'_>],
) -> Result<Vec<Outcome<'p>>, Status> {
    let now = Instant::now();
    let matched = match_rules(plan, domain, descriptors);
    let mut calls = Calls::default();
    for (at, (descriptor, matched)) in descriptors.iter().zip(&matched).enumerate() {
        match matched {
            Matched::Unlimited => {}
            Matched::Refused(_) => calls.is_refused = true,
            Matched::Limited(rule, policy) => calls.add(at, domain, rule, policy, descriptor)?,
        }
    }
    let replies = calls.run(server, now + STORE_DEADLINE, descriptors.len());
    let replies = timeout_at(now + REQUEST_DEADLINE, replies)
        .await
        .map_err(|_| Status::unavailable("the store did not answer in time"))?
        .map_err(|error| store_failed(&error))?;
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
        match (rule.effect(), descriptor.limit) {
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

/// The calls of the engine that one request takes: mostly one.
#[derive(Default)]
struct Calls<'a> {
    peeks: Batch<'a>,
    charges: Batch<'a>,
    refunds: Batch<'a>,
    is_refused: bool,
}

/// Checks of one call, with the places of their descriptors.
#[derive(Default)]
struct Batch<'a> {
    checks: Vec<Check<'a>>,
    places: Vec<usize>,
}

impl<'a> Calls<'a> {
    fn add(
        &mut self,
        at: usize,
        domain: &str,
        rule: &Rule,
        policy: &'a ActivePolicy,
        descriptor: &Descriptor<'a>,
    ) -> Result<(), Status> {
        let (batch, units) = match descriptor.hits {
            // A peek asks whether one unit is left.
            Hits::Peek => (&mut self.peeks, 1),
            Hits::Charge(units) => (&mut self.charges, units),
            Hits::Refund(units) => (&mut self.refunds, units),
        };
        let key = rule.key(policy, domain, &descriptor.entries);
        let tier = descriptor.entries.iter().find(|(key, _)| *key == TIER);
        batch.checks.push(Check {
            policy,
            key: key.map_err(|bad| bad_key(at, &bad))?,
            cost: policy.scope().policy().requests(units),
            tier: tier.map(|(_, tier)| Cow::Borrowed(*tier)),
            rate: descriptor.rate(),
        });
        batch.places.push(at);
        Ok(())
    }

    /// Peeks first, which can only refuse; then the charges, all or none; then the refunds.
    async fn run(
        mut self,
        server: &Server,
        until: Instant,
        descriptors: usize,
    ) -> Result<Vec<Option<Reply>>, StoreError> {
        let mut replies = vec![None; descriptors];
        let mut refused = self.is_refused;
        refused |= self.peeks.run(server, until, Verb::Peek, &mut replies).await?;
        let verb = if refused { Verb::Peek } else { Verb::Check };
        refused |= self.charges.run(server, until, verb, &mut replies).await?;
        if refused {
            for check in &mut self.refunds.checks {
                check.cost = check.policy.scope().policy().requests(0);
            }
        }
        let verb = if refused { Verb::Peek } else { Verb::Refund };
        self.refunds.run(server, until, verb, &mut replies).await?;
        Ok(replies)
    }
}

impl Batch<'_> {
    /// Returns whether one of the checks was refused.
    async fn run(
        &self,
        server: &Server,
        until: Instant,
        verb: Verb,
        replies: &mut [Option<Reply>],
    ) -> Result<bool, StoreError> {
        if self.checks.is_empty() {
            return Ok(false);
        }
        let deadline = Some(until.saturating_duration_since(Instant::now()));
        let caller = Caller { face: Face::Grpc, deadline };
        let mut refused = false;
        let answered = server.engine.apply(caller, verb, &self.checks).await?;
        for (at, reply) in self.places.iter().zip(answered) {
            refused |= reply.is_refusal();
            replies[*at] = Some(reply);
        }
        Ok(refused)
    }
}

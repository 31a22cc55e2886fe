//! One request decided as a whole: from descriptors to checks, and the calls of the engine that takes.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::poll;
use tokio::time::{Instant, timeout_at};
use tonic::Status;
use waterclock::{Source, StoreError, Verb};
use waterclock_config::{ReferenceConfig, RuleCharge};

use super::request::{Descriptor, Hits, LimitOverride};
use crate::engine::{ActivePolicy, Caller, Check, Plan, Rate, Reply, TIER};
use crate::observe::Face;
use crate::reference::NEAR;
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
    /// A bill or a refund; its reply is that of a peek with the same cost.
    pub(super) never_refuses: bool,
    pub(super) reply: Reply,
}

impl Decided<'_> {
    /// Whether this descriptor has refused, and not another of the same request.
    pub(super) fn has_refused(&self) -> bool {
        let answer = &self.reply.answer;
        let by_itself = !answer.decision.refused_by().is_empty()
            || answer.source == Source::Policy
            || self.reply.is_held_up;
        !self.never_refuses && self.reply.is_refusal() && by_itself
    }
}

/// What applies to a descriptor before the engine is called.
enum Matched<'p> {
    Unlimited,
    Refused(&'p Rule),
    Limited(&'p Rule, &'p ActivePolicy),
}

impl<'p> Matched<'p> {
    fn rule(&self) -> Option<&'p Rule> {
        match self {
            Matched::Unlimited => None,
            Matched::Refused(rule) | Matched::Limited(rule, _) => Some(rule),
        }
    }
}

/// Why there is no decision.
pub(super) enum Failed {
    /// The engine has counted that for each policy.
    Store(Status),
    TimedOut,
}

/// What is done with some of the descriptors, in this order. Mostly one of these is all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Each alone: peeks, which can only refuse.
    Peek,
    /// Each alone, refused or not.
    Count,
    /// Bills and their refunds, whatever becomes of the others.
    Debit,
    GiveBack,
    /// All of them or, if anything was refused, none.
    Check,
    /// Only if nothing was refused.
    Refund,
}

impl Step {
    const ALL: [Step; 6] =
        [Step::Peek, Step::Count, Step::Debit, Step::GiveBack, Step::Check, Step::Refund];

    fn of(rule: &Rule, hits: Hits, reference: &ReferenceConfig) -> Step {
        let charge = match rule.charge {
            // One that does not refuse the request by itself must not keep others from being charged.
            RuleCharge::Check if rule.is_shadow() || is_quota(rule, reference) => RuleCharge::Count,
            charge => charge,
        };
        match (hits, charge) {
            (Hits::Peek, _) => Step::Peek,
            (Hits::Charge(_), RuleCharge::Check) => Step::Check,
            (Hits::Charge(_), RuleCharge::Debit) | (Hits::Bill(_), _) => Step::Debit,
            (Hits::Charge(_), RuleCharge::Count) => Step::Count,
            (Hits::Refund(_), RuleCharge::Check) => Step::Refund,
            (Hits::Refund(_), RuleCharge::Debit | RuleCharge::Count) => Step::GiveBack,
        }
    }

    fn verb(self, refused: bool) -> Verb {
        match self {
            Step::Count => Verb::Check,
            Step::Debit => Verb::Debit,
            Step::GiveBack => Verb::Refund,
            Step::Check if !refused => Verb::Check,
            Step::Refund if !refused => Verb::Refund,
            Step::Peek | Step::Check | Step::Refund => Verb::Peek,
        }
    }

    fn can_refuse(self) -> bool {
        matches!(self, Step::Peek | Step::Count | Step::Check)
    }
}

/// Whether it refuses a request only together with all others of this kind.
fn is_quota(rule: &Rule, reference: &ReferenceConfig) -> bool {
    rule.reference().is_some_and(|terms| terms.quota || reference.quota)
}

/// What the refusals so far mean for the whole request, as the response has it.
struct Verdict<'r> {
    reference: &'r ReferenceConfig,
    /// One limit refuses by itself.
    is_refused: bool,
    /// Limits in quota mode that the request meets, and those of them that refuse.
    quotas: usize,
    over: usize,
}

impl Verdict<'_> {
    fn of<'r>(matched: &[Matched<'_>], reference: &'r ReferenceConfig) -> Verdict<'r> {
        let mut verdict = Verdict { reference, is_refused: false, quotas: 0, over: 0 };
        for matched in matched {
            let Some(rule) = matched.rule() else { continue };
            verdict.quotas += usize::from(is_quota(rule, reference));
            if let Matched::Refused(rule) = matched {
                verdict.note_refusal(rule);
            }
        }
        verdict
    }

    fn note_refusal(&mut self, rule: &Rule) {
        match is_quota(rule, self.reference) {
            _ if rule.is_shadow() => {}
            true => self.over += 1,
            false => self.is_refused = true,
        }
    }

    fn refuses(&self) -> bool {
        self.is_refused || (self.quotas > 0 && self.over == self.quotas)
    }
}

/// Decides about all descriptors, in their order. Unless all are admitted, those of rules that check are neither charged
/// nor refunded.
pub(super) async fn decide<'p>(
    server: &Server,
    plan: &'p Plan,
    domain: &str,
    descriptors: &[Descriptor<'p>],
) -> Result<Vec<Outcome<'p>>, Failed> {
    let (now, reference) = (Instant::now(), server.reference());
    let matched = match_rules(plan, domain, descriptors);
    let mut steps = Step::ALL.map(|step| (step, Vec::new(), Vec::new()));
    for (at, (descriptor, matched)) in descriptors.iter().zip(&matched).enumerate() {
        if let Matched::Limited(rule, policy) = matched {
            let wanted = Step::of(rule, descriptor.hits, reference);
            for (_, places, checks) in steps.iter_mut().filter(|(step, ..)| *step == wanted) {
                places.push(at);
                checks.push(to_check(domain, rule, policy, descriptor));
            }
        }
    }
    let mut verdict = Verdict::of(&matched, reference);
    let mut replies: Vec<Option<Reply>> = vec![None; descriptors.len()];
    let deciding = async {
        for (step, places, mut checks) in steps {
            if checks.is_empty() {
                continue;
            }
            if step == Step::Refund && verdict.refuses() {
                let nothing = |check: &mut Check<'_>| {
                    check.cost = check.policy.scope().policy().requests(0);
                };
                checks.iter_mut().for_each(nothing);
            }
            let deadline = (now + STORE_DEADLINE).saturating_duration_since(Instant::now());
            let caller = Caller { face: Face::Grpc, deadline: Some(deadline) };
            let verb = step.verb(verdict.refuses());
            let decided = match step {
                Step::Peek | Step::Count => {
                    let each = server.engine.apply_each(caller, verb, &checks).await;
                    each.into_iter().collect::<Result<Vec<Reply>, StoreError>>()?
                }
                _ => server.engine.apply(caller, verb, &checks).await?,
            };
            for (at, reply) in places.into_iter().zip(decided) {
                if let (Some(rule), true) = (matched[at].rule(), reply.is_refusal())
                    && step.can_refuse()
                {
                    verdict.note_refusal(rule);
                }
                replies[at] = Some(reply);
            }
        }
        Ok(())
    };
    within(now + REQUEST_DEADLINE, deciding)
        .await
        .ok_or(Failed::TimedOut)?
        .map_err(|error: StoreError| Failed::Store(store_failed(&error)))?;
    let outcome = |((descriptor, matched), reply): ((&Descriptor<'_>, _), _)| match (matched, reply)
    {
        (Matched::Limited(rule, policy), Some(reply)) => {
            let can_refuse = Step::of(rule, descriptor.hits, reference).can_refuse();
            let never_refuses = !can_refuse || rule.is_shadow();
            let rate = descriptor.rate();
            let decided = Decided { rule, policy, rate, never_refuses, reply };
            count_hits(server, rule, descriptor.hits, Some(&decided.reply));
            Outcome::Decided(Box::new(decided))
        }
        (Matched::Refused(rule), _) => {
            count_hits(server, rule, descriptor.hits, None);
            Outcome::Refused(rule)
        }
        (Matched::Unlimited | Matched::Limited(..), _) => Outcome::Unlimited,
    };
    Ok(descriptors.iter().zip(matched).zip(replies).map(outcome).collect())
}

/// Counts the hits of a limit of the reference service; without a reply it refuses everything.
fn count_hits(server: &Server, rule: &Rule, hits: Hits, reply: Option<&Reply>) {
    let counters = rule.reference().and_then(|terms| terms.hits.as_ref());
    let (Hits::Charge(hits), Some(counters)) = (hits, counters) else { return };
    let Some(reply) = reply else { return counters.count(hits, true, 0, 0, NEAR) };
    let refused = reply.is_refusal() || !reply.answer.decision.shadow_refused_by().is_empty();
    let first = reply.answer.limits.first();
    let limit = first.and_then(|limit| limit.limit).unwrap_or(u64::MAX);
    let remaining = first.and_then(|limit| limit.remaining).unwrap_or(limit);
    let near = match server.reference().near {
        0 => NEAR,
        near => near,
    };
    counters.count(hits, refused, limit, remaining, near);
}

/// `None` if it takes longer.
async fn within<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    // Mostly a store in memory answers at once, and no timer is needed.
    match poll!(future.as_mut()) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => timeout_at(deadline, future).await.ok(),
    }
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
        Hits::Charge(units) | Hits::Bill(units) | Hits::Refund(units) => units,
    };
    let tier = descriptor.entries.iter().find(|(key, _)| *key == TIER);
    let check = Check {
        policy,
        key: rule.key(policy, domain, &descriptor.entries),
        cost: rule.cost(policy, units),
        tier: None,
        factor: None,
        rate: descriptor.rate(),
    };
    // A proxy admits what is answered with an error.
    check.with_tier_or_none(tier.map(|(_, tier)| String::from_utf8_lossy(tier)))
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
    descriptors: &[Descriptor<'p>],
) -> Vec<Matched<'p>> {
    let find = |descriptor: &Descriptor<'p>| {
        let entries = &descriptor.entries;
        let of_file = || plan.rules().find(domain, entries);
        let pushed = || plan.pushed().find(domain, entries, descriptor.limit.is_some());
        descriptor.rule.or_else(|| of_file().or_else(pushed).map(|rule| &**rule))
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
            // A refund of what was never admitted is no reason to refuse, nor is a bill.
            (Effect::Refuse, _) | (_, Some(LimitOverride::Zero))
                if matches!(descriptor.hits, Hits::Refund(_) | Hits::Bill(_)) =>
            {
                Matched::Unlimited
            }
            (Effect::Refuse, _) => Matched::Refused(rule),
            (_, Some(LimitOverride::Zero)) => Matched::Refused(rule),
            (Effect::Limit(policy), _) => Matched::Limited(rule, policy),
        }
    };
    descriptors.iter().zip(&rules).map(matched).collect()
}

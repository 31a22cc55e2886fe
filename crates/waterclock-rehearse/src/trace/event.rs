//! One event of a trace or a log.

use std::borrow::Cow;

use waterclock::{Cost, CostError, Factor, Outcome, Policy, Scope, UnknownTier, Verb};

/// What happens, to which key, and when.
pub struct Event<'a> {
    /// Microseconds since the Unix epoch.
    pub t_us: u64,
    /// The key to charge.
    pub key: Cow<'a, str>,
    /// How much is asked for; none for the verb's default.
    pub cost: Option<Cost>,
    /// What is asked.
    pub op: Op,
    /// The tier that the request names.
    pub tier: Option<Cow<'a, str>>,
    /// How much stricter the limits are for the request.
    pub factor: Option<Factor>,
    /// The keys of the same line for the policies after the first, where each forms its own.
    pub(crate) other_keys: Cow<'a, [String]>,
    /// What it asked for, where that is read.
    pub(crate) request: Request<'a>,
    /// Whether another limiter refused it, where that is read.
    pub(crate) old_refused: Option<bool>,
}

/// What a line of a log says about a request, for reports about clients; a trace says nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request<'a> {
    /// Without the query; empty if not known.
    pub(super) path: Cow<'a, str>,
    /// The user agent; empty if not known.
    pub(super) agent: Cow<'a, str>,
}

impl Request<'_> {
    pub(crate) fn path(&self) -> Option<&str> {
        Some(&*self.path).filter(|path| !path.is_empty())
    }

    pub(crate) fn agent(&self) -> Option<&str> {
        Some(&*self.agent).filter(|agent| !agent.is_empty())
    }
}

impl<'a> Event<'a> {
    /// A check of a key at the usual cost.
    #[must_use]
    pub fn check(t_us: u64, key: impl Into<Cow<'a, str>>) -> Event<'a> {
        Event {
            t_us,
            key: key.into(),
            cost: None,
            op: Op::Check,
            tier: None,
            factor: None,
            other_keys: Cow::Borrowed(&[]),
            request: Request::default(),
            old_refused: None,
        }
    }
}

impl Event<'_> {
    /// The same, independent of the line it was read from.
    #[must_use]
    pub fn into_owned(self) -> Event<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Event {
            key: owned(self.key),
            tier: self.tier.map(owned),
            other_keys: Cow::Owned(self.other_keys.into_owned()),
            request: Request { path: owned(self.request.path), agent: owned(self.request.agent) },
            ..self
        }
    }

    /// The event as the policy at this place sees it, of those that the trace is read for.
    #[must_use]
    pub fn under(&self, place: usize) -> Event<'_> {
        let other = place.checked_sub(1).and_then(|place| self.other_keys.get(place));
        Event {
            key: Cow::Borrowed(other.map_or(&*self.key, String::as_str)),
            tier: self.tier.as_deref().map(Cow::Borrowed),
            other_keys: Cow::Borrowed(&[]),
            cost: self.cost.clone(),
            request: Request {
                path: Cow::Borrowed(&self.request.path),
                agent: Cow::Borrowed(&self.request.agent),
            },
            ..*self
        }
    }

    pub(crate) fn verb(&self) -> Verb {
        match self.op {
            Op::Check => Verb::Check,
            Op::Peek => Verb::Peek,
            Op::Refund => Verb::Refund,
            Op::Report(outcome) => Verb::Report(outcome),
            Op::Reset => Verb::Reset,
        }
    }

    /// Its cost under a policy. Units that the policy does not count are left out: another policy of the rehearsal may
    /// count them.
    pub(crate) fn cost_under(&self, policy: &Policy) -> Result<Cost, CostError> {
        match &self.cost {
            Some(cost) if cost.plain().is_none() => {
                let counted = Cost::of_units(cost.units().filter(|(unit, _)| policy.counts(unit)));
                self.verb().price(policy, Some(&counted))
            }
            cost => self.verb().price(policy, cost.as_ref()),
        }
    }
}

/// What is wrong with a cost: it is one number though a policy counts several units, or it names a unit that no policy
/// counts.
pub(super) fn misunderstood<'p>(
    mut policies: impl Iterator<Item = &'p Policy> + Clone,
    verb: Verb,
    cost: Option<&Cost>,
) -> Option<CostError> {
    let Some(cost) = cost.filter(|cost| cost.plain().is_none()) else {
        return policies.find_map(|policy| verb.price(policy, cost).err());
    };
    let is_counted = |unit: &str| policies.clone().any(|policy| policy.counts(unit));
    let (unknown, _) = cost.units().find(|(unit, _)| !is_counted(unit))?;
    verb.price(policies.next()?, Some(&Cost::of_units([(unknown, 0)]))).err()
}

/// What is wrong with a tier: the only policy does not know it, or none of several that have tiers.
pub(super) fn unknown_tier<'s>(
    scopes: impl ExactSizeIterator<Item = &'s Scope> + Clone,
    tier: Option<&str>,
) -> Option<UnknownTier> {
    let tier = tier?;
    let is_alone = scopes.len() == 1;
    let mut errors = Vec::new();
    for scope in scopes.filter(|scope| is_alone || scope.has_tiers()) {
        errors.push(scope.known_tier(tier).err()?);
    }
    errors.into_iter().next()
}

/// What an event asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Decide, and charge if allowed.
    Check,
    /// Decide without charging.
    Peek,
    /// Give units back.
    Refund,
    /// Report how a call ended.
    Report(Outcome),
    /// Forget the key.
    Reset,
}

impl Op {
    /// Whether it applies to the key's budget even if the key is exempt or blocked.
    pub(crate) fn gives_back(self) -> bool {
        matches!(self, Op::Refund | Op::Reset)
    }

    /// Its name in the answer, where the answer shows the state after it.
    pub(crate) fn name_in_answer(self) -> Option<&'static str> {
        match self {
            Op::Check | Op::Peek => None,
            Op::Refund => Some("refund"),
            Op::Report(_) => Some("report"),
            Op::Reset => Some("reset"),
        }
    }
}

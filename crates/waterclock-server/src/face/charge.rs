//! What a caller asks for, in whatever protocol, becomes a check.

use std::borrow::Cow;

use waterclock::{Cost, CostError, Factor, UnknownTier, Verb};

use crate::engine::{ActivePolicy, BadKey, Check, Plan, TIER, UnknownPolicy};

/// Finds the policies that the checks of one call name: mostly that of the check before.
pub(super) struct Finder<'a> {
    plan: &'a Plan,
    last: Option<&'a ActivePolicy>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(plan: &'a Plan) -> Finder<'a> {
        Finder { plan, last: None }
    }

    #[inline]
    pub(super) fn find(&mut self, name: &str) -> Result<&'a ActivePolicy, UnknownPolicy> {
        if let Some(last) = self.last.filter(|last| last.name() == name) {
            return Ok(last);
        }
        let found: &ActivePolicy = self.plan.find(name)?;
        self.last = Some(found);
        Ok(found)
    }
}

/// One charge as a caller names it.
pub(super) struct Asked<'a> {
    pub(super) policy: &'a ActivePolicy,
    pub(super) key: Option<&'a [u8]>,
    /// Goes before the field of this name.
    pub(super) tier: Option<&'a str>,
    pub(super) factor: Option<Factor>,
    pub(super) cost: Option<&'a Cost>,
}

/// Why it cannot become a check.
#[derive(Debug)]
pub(super) enum WrongCharge {
    UnknownPolicy(UnknownPolicy),
    Field {
        /// The field that is wrong.
        field: Cow<'static, str>,
        /// One sentence.
        reason: String,
    },
}

impl WrongCharge {
    fn field(field: &'static str, reason: impl Into<String>) -> WrongCharge {
        WrongCharge::Field { field: field.into(), reason: reason.into() }
    }
}

impl From<UnknownPolicy> for WrongCharge {
    fn from(unknown: UnknownPolicy) -> WrongCharge {
        WrongCharge::UnknownPolicy(unknown)
    }
}

impl From<BadKey> for WrongCharge {
    fn from(bad: BadKey) -> WrongCharge {
        WrongCharge::Field { field: bad.field.into(), reason: bad.reason }
    }
}

impl From<CostError> for WrongCharge {
    fn from(error: CostError) -> WrongCharge {
        WrongCharge::field("cost", error.to_string())
    }
}

impl From<UnknownTier> for WrongCharge {
    fn from(unknown: UnknownTier) -> WrongCharge {
        WrongCharge::field(TIER, unknown.to_string())
    }
}

impl<'a> Asked<'a> {
    /// The check, of a key or of fields that form one.
    #[inline]
    pub(super) fn check(
        self,
        verb: Verb,
        fields: Option<impl Fn(&str) -> Option<Cow<'a, str>>>,
    ) -> Result<Check<'a>, WrongCharge> {
        let policy = self.policy;
        let key = match (self.key, &fields) {
            (Some(key), None) => policy.key(key)?,
            (None, Some(fields)) => policy.key_of_fields(fields)?,
            (Some(_), Some(_)) => {
                return Err(WrongCharge::field("key", "send `key` or `fields`, not both"));
            }
            // Without key fields, all callers that send no key share one.
            (None, None) if policy.config().key.is_empty() => policy.key(b"")?,
            (None, None) => policy.key_of_fields(|_| None)?,
        };
        // Fields describe the request, not the policy: one without tiers does not look at them.
        let fields = fields.filter(|_| policy.has_tiers());
        let tier = self.tier.map(Cow::Borrowed).or_else(|| fields.and_then(|field| field(TIER)));
        let check = Check::new(policy, key, verb, self.cost)?;
        Ok(check.with_tier(tier)?.with_factor(self.factor))
    }
}

/// An outcome makes sense only for a policy with an error-rate limit.
pub(super) fn takes_outcomes(plan: &Plan, policy: &str) -> Result<(), WrongCharge> {
    let policy = plan.find(policy)?;
    if policy.scope().policy().takes_reports() {
        return Ok(());
    }
    let reason = format!("policy `{}` has no error-rate limit; report a `cost`", policy.name());
    Err(WrongCharge::field("outcome", reason))
}

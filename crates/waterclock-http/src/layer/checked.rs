//! The decisions about a request, for handlers and observers.

use std::fmt;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use waterclock::{Action, Answer, Policy};

use super::Match;
use crate::fields::{
    HeaderFields, HeaderStyle, Jitter, Prepared, ResponseFields, StyledAnswer, disclosed_wait,
};

/// The decisions about a request: an extension of every request that is admitted, for its handler, and of
/// every response that refuses one, for outer layers.
///
/// ```
/// use waterclock_http::Checked;
///
/// fn handler(request: http::Request<()>) -> String {
///     let checked = request.extensions().get::<Checked>();
///     let left = checked.and_then(|checked| checked.get("api")).and_then(|api| api.decision.remaining());
///     format!("{left:?} left")
/// }
/// # let _ = handler;
/// ```
#[derive(Clone)]
pub struct Checked(Decisions);

/// Most requests have one, which then needs no list: it is boxed as an extension, and needs no second box.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "most requests have one, and a box is an allocation")]
enum Decisions {
    One(Charged),
    Several(Arc<[Charged]>),
}

/// The decision of one policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Charged {
    /// The rule's policy, by whose name clients know it, if it is not the one whose numbers decided.
    base: Option<Arc<Policy>>,
    /// The policy whose numbers decided: the variant for the request's tier or key, or by its
    /// factor, if there is one.
    pub policy: Arc<Policy>,
    /// What the request costs.
    pub cost: u64,
    /// The style in which clients see it.
    pub headers: HeaderStyle,
    /// By how much clients see the advised wait spread.
    pub jitter: Jitter,
    /// The decision, with each limit's own numbers.
    pub answer: Answer,
}

impl Charged {
    // Inlined whatever the compiler thinks: it is large, and every call would move it once more.
    #[inline(always)]
    pub(super) fn new(found: &Match<'_>, mut answer: Answer) -> Self {
        let (rule, cost) = (found.rule, found.cost);
        let mut policy = Arc::clone(found.policy);
        let mut headers = rule.headers;
        let mut is_shadow = found.action == Action::Shadow;
        if let Some(applied) = &answer.applied {
            policy = Arc::clone(&applied.policy);
            // An override of the key is enforced, whatever the rollout says.
            is_shadow &= !applied.is_override;
        }
        if is_shadow {
            answer.decision = answer.decision.in_shadow(&cost.into());
            headers = HeaderStyle::None;
        }
        let base = (!Arc::ptr_eq(&policy, rule.policy())).then(|| Arc::clone(rule.policy()));
        Self { base, policy, cost, headers, jitter: rule.jitter, answer }
    }

    fn styled(&self) -> StyledAnswer<'_> {
        let (style, name) = (self.headers, self.name());
        let (policy, answer, jitter) = (&*self.policy, &self.answer, self.jitter);
        StyledAnswer { style, name, policy, answer, jitter }
    }

    /// The name of the rule's policy, whatever the tier.
    #[must_use]
    pub fn name(&self) -> &str {
        self.base.as_ref().unwrap_or(&self.policy).name()
    }

    /// Whether this policy refuses the request.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.policy.refuses(&self.answer.decision)
    }

    /// Whether clients never see this policy.
    pub(crate) fn is_hidden(&self) -> bool {
        self.styled().is_hidden()
    }
}

impl Checked {
    #[inline]
    pub(super) fn one(charge: Charged) -> Self {
        Self(Decisions::One(charge))
    }

    pub(super) fn new(charges: Vec<Charged>) -> Self {
        Self(Decisions::Several(charges.into()))
    }

    fn as_slice(&self) -> &[Charged] {
        match &self.0 {
            Decisions::One(charge) => slice::from_ref(charge),
            Decisions::Several(charges) => charges,
        }
    }

    /// These decisions of an outer layer, and then those of an inner one.
    pub(super) fn and(&self, inner: &Checked) -> Self {
        Self::new(self.iter().chain(inner.iter()).cloned().collect())
    }

    /// The decision of each policy, in the order of the rules. Policies that are not enforced for the key (in
    /// shadow, exempt, blocked, or without limits) come last.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Charged> + Clone {
        self.as_slice().iter()
    }

    /// The answer of the policy of this name.
    #[must_use]
    pub fn get(&self, policy: &str) -> Option<&Answer> {
        self.iter().find(|charged| charged.name() == policy).map(|charged| &charged.answer)
    }

    /// Whether the request is refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.iter().any(Charged::is_refused)
    }

    /// How long the client should wait, as far as it may know: the exact value of `Retry-After`, without jitter.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        disclosed_wait(self.iter().map(Charged::styled))
    }

    /// The fields of a response to a request that one policy admits, where they are prepared or there are none.
    #[inline]
    pub(super) fn prepared_fields(&self, prepared: Option<&Prepared>) -> Option<ResponseFields> {
        let Decisions::One(only) = &self.0 else { return None };
        match only.headers {
            _ if only.is_refused() => None,
            _ if only.is_hidden() => Some(ResponseFields::None),
            HeaderStyle::RetryAfter => Some(ResponseFields::None),
            HeaderStyle::Ietf | HeaderStyle::Draft10 if only.base.is_none() => {
                prepared?.fields(&only.policy, &only.answer, only.headers)
            }
            _ => None,
        }
    }

    pub(crate) fn fields(&self) -> HeaderFields {
        HeaderFields::for_check(self.iter().map(Charged::styled))
    }
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checked").field(&self.as_slice()).finish()
    }
}

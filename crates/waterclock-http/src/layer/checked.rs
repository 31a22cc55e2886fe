//! The decisions about a request, for handlers and observers.

use std::sync::Arc;
use std::time::Duration;

use waterclock::{Action, Answer, Policy};

use super::Match;
use crate::fields::{HeaderFields, HeaderStyle, Jitter, StyledAnswer, disclosed_wait};

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
#[derive(Clone, Debug)]
pub struct Checked(Arc<[Charged]>);

/// The decision of one policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Charged {
    /// The rule's policy, by whose name clients know it.
    pub(crate) base: Arc<Policy>,
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
    pub(super) fn new(found: Match<'_>, mut answer: Answer) -> Self {
        let Match { rule, mut policy, cost, action, .. } = found;
        let mut headers = rule.headers;
        let mut is_shadow = action == Action::Shadow;
        if let Some(applied) = &answer.applied {
            policy = Arc::clone(&applied.policy);
            // An override of the key is enforced, whatever the rollout says.
            is_shadow &= !applied.is_override;
        }
        if is_shadow {
            answer.decision = answer.decision.in_shadow(&cost.into());
            headers = HeaderStyle::None;
        }
        let (base, jitter) = (Arc::clone(rule.policy()), rule.jitter);
        Self { base, policy, cost, headers, jitter, answer }
    }

    fn styled(&self) -> StyledAnswer<'_> {
        let (style, name) = (self.headers, self.name());
        let (policy, answer, jitter) = (&*self.policy, &self.answer, self.jitter);
        StyledAnswer { style, name, policy, answer, jitter }
    }

    /// The name of the rule's policy, whatever the tier.
    #[must_use]
    pub fn name(&self) -> &str {
        self.base.name()
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
    pub(super) fn new(charges: Vec<Charged>) -> Self {
        Self(charges.into())
    }

    /// Appends these decisions to those of an outer layer.
    pub(super) fn after(self, earlier: Option<&Checked>) -> Self {
        match earlier {
            Some(earlier) => Self(earlier.iter().chain(self.iter()).cloned().collect()),
            None => self,
        }
    }

    /// The decision of each policy, in the order of the rules. Policies that are not enforced for the key (in
    /// shadow, exempt, blocked, or without limits) come last.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Charged> + Clone {
        self.0.iter()
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

    pub(crate) fn fields(&self) -> HeaderFields {
        HeaderFields::for_check(self.iter().map(Charged::styled))
    }
}

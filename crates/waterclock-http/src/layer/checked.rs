use std::sync::Arc;
use std::time::Duration;

use waterclock::{Answer, Policy};

use crate::fields::{Fields, HeaderStyle, Told, fields, told_wait};
use crate::rule::Rule;

/// What was decided about a request: an extension of every request that gets through, for its handler, and
/// of every response that turns one away, for whoever counts.
///
/// ```
/// use waterclock_http::Checked;
///
/// fn handler(request: http::Request<()>) -> String {
///     let checked = request.extensions().get::<Checked>();
///     let left = checked.and_then(|checked| checked.of("api")).and_then(|api| api.decision.remaining());
///     format!("{left:?} left")
/// }
/// # let _ = handler;
/// ```
#[derive(Clone, Debug)]
pub struct Checked(Arc<[Charged]>);

/// What one policy decided.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Charged {
    /// The rule's policy, by whose name clients know it.
    pub(crate) rule: Arc<Policy>,
    /// The policy whose numbers decided: that of the request's tier, if it has one.
    pub policy: Arc<Policy>,
    /// What the request costs.
    pub cost: u64,
    /// How much clients are told of it.
    pub headers: HeaderStyle,
    /// The decision, with each limit's own numbers.
    pub answer: Answer,
}

impl Charged {
    pub(super) fn new(rule: &Rule, policy: &Arc<Policy>, cost: u64, answer: Answer) -> Self {
        let (rule, headers) = (Arc::clone(&rule.policy), rule.headers);
        Self { rule, policy: Arc::clone(policy), cost, headers, answer }
    }

    fn told(&self) -> Told<'_> {
        let (style, name) = (self.headers, self.name());
        Told { style, name, policy: &self.policy, answer: &self.answer }
    }

    /// The name of the rule's policy, whatever the tier.
    #[must_use]
    pub fn name(&self) -> &str {
        self.rule.name()
    }

    /// Whether this policy turns the request away.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.policy.refuses(&self.answer.decision)
    }

    /// Whether clients hear of this policy.
    pub(crate) fn is_told(&self) -> bool {
        !self.told().is_silent()
    }
}

impl Checked {
    pub(super) fn new(charges: Vec<Charged>) -> Self {
        Self(charges.into())
    }

    /// Behind what a layer further out has decided.
    pub(super) fn after(self, earlier: Option<&Checked>) -> Self {
        match earlier {
            Some(earlier) => Self(earlier.iter().chain(self.iter()).cloned().collect()),
            None => self,
        }
    }

    /// What each policy said, in the order of the rules.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Charged> {
        self.0.iter()
    }

    /// What the policy of this name said.
    #[must_use]
    pub fn of(&self, policy: &str) -> Option<&Answer> {
        self.iter().find(|charged| charged.name() == policy).map(|charged| &charged.answer)
    }

    /// Whether the request is turned away.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.iter().any(Charged::refuses)
    }

    /// How long a client should wait, as far as it may be told: what `Retry-After` says, exactly.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        told_wait(&self.told())
    }

    pub(crate) fn fields(&self) -> Fields {
        match &*self.0 {
            [one] => fields(&[one.told()]),
            _ => fields(&self.told()),
        }
    }

    fn told(&self) -> Vec<Told<'_>> {
        self.iter().map(Charged::told).collect()
    }
}

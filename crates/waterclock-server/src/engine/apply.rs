//! A check: which policy decides about each key, and what the store says to that.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use waterclock::{Answer, Charge, Clock, Policy, StoreError, Verb};

use super::{Ask, Engine, Exception, Outcome, Reply, Standing};
use crate::observe::Face;

/// Of asks that are decided each on its own.
const EACH_AT_ONCE: usize = 64;

impl Engine {
    /// Applies one check, all or nothing over its asks. The replies are in their order.
    pub async fn apply(
        &self,
        face: Face,
        verb: Verb,
        asks: &[Ask<'_>],
    ) -> Result<Vec<Reply>, StoreError> {
        self.apply_within(None, face, verb, asks).await
    }

    /// The same for a caller who waits less long than the store is given otherwise.
    pub async fn apply_within(
        &self,
        patience: Option<Duration>,
        face: Face,
        verb: Verb,
        asks: &[Ask<'_>],
    ) -> Result<Vec<Reply>, StoreError> {
        let started = self.metrics.clock().now();
        let replies = self.apply_unmeasured(patience, face, verb, asks).await;
        self.metrics.decided(face, started);
        replies
    }

    async fn apply_unmeasured(
        &self,
        patience: Option<Duration>,
        face: Face,
        verb: Verb,
        asks: &[Ask<'_>],
    ) -> Result<Vec<Reply>, StoreError> {
        if let [ask] = asks
            && let Some(reply) = self.reply_now(face, verb, ask)
        {
            return Ok(vec![reply]);
        }
        let mut replies = self.decide(patience, verb, asks).await;
        if matches!(verb, Verb::Refund | Verb::Reset)
            && asks.iter().any(|ask| self.is_special(ask))
            && replies.is_ok()
        {
            // What was done to the policy's own numbers is told in those that go for the key. It is done, whether or
            // not anybody can tell.
            let peeked = self.decide(patience, Verb::Peek, asks).await;
            replies = peeked.or(replies);
        }
        match &replies {
            Ok(replies) if verb == Verb::Check => {
                for (ask, reply) in asks.iter().zip(replies) {
                    self.count(face, ask.served, ask.key.bytes(), reply.outcome());
                }
            }
            Ok(_) => {}
            Err(_) => {
                asks.iter().for_each(|ask| ask.served.tally().count(face, Outcome::Error));
            }
        }
        replies
    }

    /// Whether anything else than the policy's own numbers goes for a key.
    fn is_special(&self, ask: &Ask<'_>) -> bool {
        ask.served.tier(ask.tier).is_some()
            || self.exceptions.of(ask.served.name(), ask.key).is_some()
            || !matches!(ask.key.standing(), Standing::Limited)
    }

    /// Applies each ask on its own, whatever becomes of the others.
    pub async fn each(
        &self,
        face: Face,
        verb: Verb,
        asks: &[Ask<'_>],
    ) -> Vec<Result<Reply, StoreError>> {
        let started = self.metrics.clock().now();
        let mut replies = Vec::with_capacity(asks.len());
        for some in asks.chunks(EACH_AT_ONCE) {
            // A store elsewhere is asked about many at a time.
            replies.extend(join_all(some.iter().map(|ask| self.one(face, verb, ask))).await);
        }
        self.metrics.decided(face, started);
        replies
    }

    async fn one(&self, face: Face, verb: Verb, ask: &Ask<'_>) -> Result<Reply, StoreError> {
        if let Some(reply) = self.reply_now(face, verb, ask) {
            return Ok(reply);
        }
        let asks = std::slice::from_ref(ask);
        let replies = Box::pin(self.apply_unmeasured(None, face, verb, asks)).await?;
        replies.into_iter().next().ok_or_else(short_of_answers)
    }

    pub(super) async fn decide(
        &self,
        patience: Option<Duration>,
        verb: Verb,
        asks: &[Ask<'_>],
    ) -> Result<Vec<Reply>, StoreError> {
        let mut charged = self.charge(patience, verb, asks, Look::First).await;
        if let Err(StoreError::UnknownPolicy(_)) = charged {
            // An override was taken back in between, or a reload has left it out: look again. Nothing was
            // charged so far.
            charged = self.charge(patience, verb, asks, Look::Again).await;
        }
        let Charged { under, answers, is_blocked } = charged?;
        let in_shadow: Vec<(usize, Arc<Policy>)> =
            under.iter().enumerate().filter_map(|(place, under)| under.in_shadow(place)).collect();
        let mut beside = if in_shadow.is_empty() {
            HashMap::new()
        } else {
            let verb = if is_blocked { Verb::Peek } else { verb };
            let is_alone = answers.is_empty();
            // Boxed, because it is rare.
            Box::pin(self.beside(patience, verb, asks, in_shadow, is_alone)).await?
        };
        let mut answers = answers.into_iter();
        let mut replies = Vec::with_capacity(asks.len());
        for (place, (ask, under)) in asks.iter().zip(under).enumerate() {
            replies.push(match under {
                Under::Blocked(policy) => Reply::blocked(policy, &ask.cost),
                Under::Exempt(policy) => Reply::exempt(policy, &ask.cost),
                Under::Unlimited(policy) => Reply::unlimited(policy, &ask.cost),
                Under::Policy(policy) => match answers.next() {
                    Some(answer) if is_blocked => Reply::given_up(policy, answer),
                    Some(answer) => Reply::new(policy, answer),
                    None => return Err(short_of_answers()),
                },
                Under::Shadow(policy) => {
                    let unwatched = || Reply::unwatched(&policy, &ask.cost);
                    beside.remove(&place).unwrap_or_else(unwatched)
                }
            });
        }
        Ok(replies)
    }

    /// Finds what decides about each ask, and charges those that can be refused: all of them or none.
    async fn charge(
        &self,
        patience: Option<Duration>,
        verb: Verb,
        asks: &[Ask<'_>],
        look: Look,
    ) -> Result<Charged, StoreError> {
        let mut under = Vec::with_capacity(asks.len());
        for ask in asks {
            under.push(self.under(verb, ask, look).await?);
        }
        // Nothing else is charged where somebody is blocked.
        let is_blocked =
            verb == Verb::Check && under.iter().any(|under| matches!(under, Under::Blocked(_)));
        let verb = if is_blocked { Verb::Peek } else { verb };
        let mut charges = Vec::with_capacity(asks.len());
        for (ask, under) in asks.iter().zip(&under) {
            if let Under::Policy(policy) = under {
                let key = ask.key.bytes();
                charges.push(Charge { policy: policy.name(), key, cost: ask.cost.clone() });
            }
        }
        let answers = if charges.is_empty() {
            Vec::new()
        } else {
            self.place.apply_within(patience, verb, &charges, &self.metrics).await?
        };
        Ok(Charged { under, answers, is_blocked })
    }

    /// Which policy decides about a key: block before exempt before override before rollout before what
    /// goes for its tier.
    pub(super) async fn under(
        &self,
        verb: Verb,
        ask: &Ask<'_>,
        look: Look,
    ) -> Result<Under, StoreError> {
        let policy = ask.served.policy();
        if matches!(verb, Verb::Refund | Verb::Reset) {
            // What was spent is given back or forgotten whoever the key is.
            return Ok(limited(ask, policy));
        }
        let exception = self.exceptions.of(ask.served.name(), ask.key);
        match (exception, ask.key.standing()) {
            (Some(Exception::Block), _) | (_, Standing::Blocked) => Ok(Under::Blocked(policy)),
            (Some(Exception::Exempt), _) | (_, Standing::Exempt) => Ok(Under::Exempt(policy)),
            (Some(Exception::Override(policy)), _) => Ok(Under::Policy(policy)),
            (None, Standing::Override(policy)) if look == Look::First => {
                Ok(Under::Policy(Arc::clone(policy)))
            }
            (None, _) => match (ask.numbers, ask.served.tier(ask.tier)) {
                // Boxed, because it is rare and nests deep.
                (Some(numbers), _) => {
                    let with = Box::pin(ask.served.with(numbers, &self.place)).await?;
                    Ok(limited(ask, with))
                }
                (None, Some(tier)) if tier.limits().is_empty() => {
                    Ok(Under::Unlimited(Arc::clone(tier)))
                }
                (None, Some(tier)) if look == Look::First => Ok(limited(ask, Arc::clone(tier))),
                (None, _) => Ok(limited(ask, policy)),
            },
        }
    }
}

/// Whether the store knew every policy that a check named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    First,
    /// It did not: what the configuration says about single keys and tiers goes for nobody any more.
    Again,
}

/// What was found and charged for a check.
struct Charged {
    under: Vec<Under>,
    /// To those that can be refused, in their order.
    answers: Vec<Answer>,
    /// Whether nothing was charged, because somebody is blocked.
    is_blocked: bool,
}

/// What decides about one ask.
pub(super) enum Under {
    Blocked(Arc<Policy>),
    Exempt(Arc<Policy>),
    /// No limit goes for its tier.
    Unlimited(Arc<Policy>),
    Policy(Arc<Policy>),
    /// The policy is not rolled out to the key.
    Shadow(Arc<Policy>),
}

impl Under {
    /// The policy that only watches this ask, with its place.
    fn in_shadow(&self, place: usize) -> Option<(usize, Arc<Policy>)> {
        if let Self::Shadow(policy) = self { Some((place, Arc::clone(policy))) } else { None }
    }
}

fn limited(ask: &Ask<'_>, policy: Arc<Policy>) -> Under {
    if ask.served.enrols(ask.key) { Under::Policy(policy) } else { Under::Shadow(policy) }
}

pub(crate) fn short_of_answers() -> StoreError {
    StoreError::failed(waterclock::Failure::BadReply, "fewer answers than questions")
}

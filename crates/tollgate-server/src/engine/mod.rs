//! What every face asks: policies by name, keys, exceptions, one store.

mod address;
mod entries;
mod exception;
mod key;
mod list;
mod lone;
mod numbers;
mod place;
mod plan;
mod reply;
mod served;
mod throttle;

pub use self::exception::{Exception, Exceptions, Instead};
pub use self::key::{BadKey, Key, MAX_KEY, Standing};
pub use self::numbers::Numbers;
pub use self::place::Place;
pub use self::plan::Plan;
pub use self::reply::{Outcome, Reply};
pub use self::served::Served;
pub use self::throttle::{ThrottleNumbers, Variant};

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use futures_util::future::join_all;
use tollgate::{Charge, Clock, Policy, StoreError, Verb};

use self::throttle::Throttle;
use crate::config::{Config, Invalid};
use crate::observe::{Face, Metrics};

/// Of asks that are decided each on its own.
const EACH_AT_ONCE: usize = 64;

/// One line of a check, as a face puts it.
pub struct Ask<'a> {
    /// The policy, from the [`Plan`].
    pub served: &'a Served,
    /// What shares a budget, formed by the policy.
    pub key: &'a Key<'a>,
    /// How many units; 0 is a peek.
    pub cost: u64,
    /// Numbers that stand in for the policy's own, for this call.
    pub numbers: Option<Numbers>,
}

/// Policies, exceptions and the store behind them.
pub struct Engine {
    place: Place,
    plan: ArcSwap<Plan>,
    exceptions: Exceptions,
    /// Held while exceptions change, so that the store and they agree.
    changing: tokio::sync::Mutex<()>,
    throttle: Throttle,
    metrics: Arc<Metrics>,
}

impl Engine {
    /// An engine with the policies of a configuration, on the store it names.
    pub async fn new(config: &Config, metrics: Arc<Metrics>) -> Result<Engine, Invalid> {
        let place = Place::open(&config.store)?;
        let plan = Plan::new(config, &metrics)?;
        let engine = Engine {
            place,
            plan: ArcSwap::from_pointee(Plan::empty()),
            exceptions: Exceptions::default(),
            changing: tokio::sync::Mutex::default(),
            throttle: Throttle::new(|family| metrics.tally(family)),
            metrics,
        };
        engine.place.greet().await?;
        engine.put_in_force(plan).await?;
        let begun = Throttle::begin(&engine.place).await;
        begun.map_err(|error| Invalid::from(error.to_string()))?;
        if let Some(path) = &config.store.snapshot {
            engine.place.restore(path);
        }
        Ok(engine)
    }

    /// What is in force. Hold it for one request, so that a reload does not change it half way.
    pub fn plan(&self) -> Guard<Arc<Plan>> {
        self.plan.load()
    }

    /// The store.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What administrators have said about single keys.
    pub fn exceptions(&self) -> &Exceptions {
        &self.exceptions
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Brings the gauges up to date.
    pub(crate) fn gauge(&self) {
        self.metrics.set_degraded(self.place.is_degraded());
        self.place.failures().for_each(|(kind, total)| self.metrics.set_store_errors(kind, total));
        let plan = self.plan();
        let mut gauges = self.metrics.of_policies();
        for served in plan.policies() {
            gauges.keys(served.name(), self.place.keys_of(served.name()));
            for limit in served.policy().limits() {
                if let Some(most) = limit.most() {
                    gauges.limit(served.name(), limit.name(), most);
                }
            }
        }
        self.metrics.set_overflowed(self.place.overflowed());
    }

    /// Puts another configuration in force, whole or not at all; what was spent stays spent.
    pub async fn adopt(&self, config: &Config) -> Result<(), Invalid> {
        let plan = Plan::new(config, &self.metrics)?;
        self.put_in_force(plan).await
    }

    async fn put_in_force(&self, plan: Plan) -> Result<(), Invalid> {
        let before = self.plan.load_full();
        let mut changed = Vec::new();
        for served in plan.policies() {
            let old = before.policy(served.name());
            if old.is_some_and(|old| old.decides_as(served)) {
                continue;
            }
            changed.push(served);
            if let Err(error) = self.place.set(served).await {
                self.put_back(&before, &changed).await;
                return Err(Invalid::from(error.to_string()));
            }
        }
        for served in changed {
            if let Some(old) = before.policy(served.name()) {
                self.place.remove_overrides(old, served).await;
            }
        }
        let gone: Vec<String> = before
            .policies()
            .filter(|old| plan.policy(old.name()).is_none())
            .map(|old| old.name().to_owned())
            .collect();
        self.plan.store(Arc::new(plan));
        for name in gone {
            self.exceptions.forget(&name);
            self.place.remove(&name).await;
        }
        Ok(())
    }

    /// Undoes a change that went wrong half way: all of a configuration or nothing of it.
    async fn put_back(&self, before: &Plan, changed: &[&Arc<Served>]) {
        for served in changed {
            match before.policy(served.name()) {
                Some(old) => _ = self.place.set(old).await,
                None => self.place.remove(served.name()).await,
            }
        }
    }

    /// Makes an exception for a key. Says `false` if there are too many already.
    pub async fn make_exception(
        &self,
        served: &Served,
        key: &Key<'_>,
        instead: Instead,
    ) -> Result<bool, StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let exception = match instead {
            Instead::Block => Exception::Block,
            Instead::Exempt => Exception::Exempt,
            Instead::Limits(limits) => {
                if !self.exceptions.has_room_for(served.name(), key) {
                    return Ok(false);
                }
                let policy = served.with_limits(key, &limits, &self.place).await?;
                return Ok(self.exceptions.make(served.name(), key, Exception::Override(policy)));
            }
        };
        self.drop_exception(served, key).await;
        Ok(self.exceptions.make(served.name(), key, exception))
    }

    /// Takes the exception for a key back: its policy goes for it again.
    pub async fn take_back(&self, served: &Served, key: &Key<'_>) {
        let _one_at_a_time = self.changing.lock().await;
        self.drop_exception(served, key).await;
    }

    async fn drop_exception(&self, served: &Served, key: &Key<'_>) {
        let was = self.exceptions.take_back(served.name(), key);
        if let Some(Exception::Override(policy)) = was {
            self.place.remove(policy.name()).await;
        }
    }

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
        let mut under = Vec::with_capacity(asks.len());
        for ask in asks {
            under.push(self.under(verb, ask).await?);
        }
        let mut replies = self.decide(patience, verb, asks, under).await;
        if let Err(StoreError::UnknownPolicy(_)) = replies {
            // An override was taken back in between: look again.
            let mut under = Vec::with_capacity(asks.len());
            for ask in asks {
                under.push(self.under(verb, ask).await?);
            }
            replies = self.decide(patience, verb, asks, under).await;
        }
        match &replies {
            Ok(replies) if verb == Verb::Check => {
                for (ask, reply) in asks.iter().zip(replies) {
                    ask.served.tally().count(face, reply.outcome());
                }
            }
            Ok(_) => {}
            Err(_) => {
                asks.iter().for_each(|ask| ask.served.tally().count(face, Outcome::Error));
            }
        }
        replies
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

    async fn decide(
        &self,
        patience: Option<Duration>,
        verb: Verb,
        asks: &[Ask<'_>],
        under: Vec<Under>,
    ) -> Result<Vec<Reply>, StoreError> {
        let is_check = verb == Verb::Check;
        // Nothing else is charged where somebody is blocked.
        let blocked = is_check && under.iter().any(|under| matches!(under, Under::Blocked(_)));
        let verb = if blocked { Verb::Peek } else { verb };
        let mut charges = Vec::with_capacity(asks.len());
        for (ask, under) in asks.iter().zip(&under) {
            if let Under::Policy(policy) = under {
                let key = ask.key.bytes();
                charges.push(Charge { policy: policy.name(), key, cost: ask.cost });
            }
        }
        let answers = if charges.is_empty() {
            Vec::new()
        } else {
            self.place.apply_within(patience, verb, &charges, &self.metrics).await?
        };
        let mut answers = answers.into_iter();
        let mut replies = Vec::with_capacity(asks.len());
        for (ask, under) in asks.iter().zip(under) {
            replies.push(match under {
                Under::Blocked(policy) => Reply::blocked(policy, ask.cost),
                Under::Exempt(policy) => Reply::exempt(policy, ask.cost),
                Under::Policy(policy) => match answers.next() {
                    Some(answer) if blocked => Reply::given_up(policy, answer),
                    Some(answer) => Reply::new(policy, answer),
                    None => return Err(short_of_answers()),
                },
            });
        }
        Ok(replies)
    }

    /// Which policy decides about a key: block before exempt before override before numbers.
    async fn under(&self, verb: Verb, ask: &Ask<'_>) -> Result<Under, StoreError> {
        let policy = ask.served.policy();
        if matches!(verb, Verb::Refund | Verb::Reset) {
            // What was spent is given back or forgotten whoever the key is.
            return Ok(Under::Policy(policy));
        }
        let exception = self.exceptions.of(ask.served.name(), ask.key);
        match (exception, ask.key.standing()) {
            (Some(Exception::Block), _) | (_, Standing::Blocked) => Ok(Under::Blocked(policy)),
            (Some(Exception::Exempt), _) | (_, Standing::Exempt) => Ok(Under::Exempt(policy)),
            (Some(Exception::Override(policy)), _) => Ok(Under::Policy(policy)),
            (None, Standing::Override(policy)) => Ok(Under::Policy(Arc::clone(policy))),
            (None, Standing::Limited) => match ask.numbers {
                // Boxed, because it is rare and nests deep.
                Some(numbers) => {
                    Box::pin(ask.served.with(numbers, &self.place)).await.map(Under::Policy)
                }
                None => Ok(Under::Policy(policy)),
            },
        }
    }
}

/// What decides about one ask.
enum Under {
    Blocked(Arc<Policy>),
    Exempt(Arc<Policy>),
    Policy(Arc<Policy>),
}

fn short_of_answers() -> StoreError {
    StoreError::failed(tollgate::Failure::BadReply, "fewer answers than questions")
}

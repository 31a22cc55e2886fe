//! The decision about one request: matching rules, one question to the store, and a ruling.

use std::net::IpAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use tokio::runtime::Handle;
use waterclock::{
    Action, Answer, Charge, Factor, Failure, MonotonicClock, Policy, Store, StoreError, Verb,
};

use super::settle::{Due, OnEnd};
use super::{Charged, Checked};
use crate::fields::HeaderFields;
use crate::key::{FoundKey, Key};
use crate::refusal::{Reason, Refusal};
use crate::rule::Rule;
use waterclock::store::now_or_never;

pub(super) type Respond = Arc<dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync>;

/// How the address of a connection's peer is known.
#[derive(Clone)]
pub(super) enum PeerSource {
    /// No key needs it.
    Unknown,
    /// The request contains it.
    Request(Arc<dyn Fn(&Parts) -> IpAddr + Send + Sync>),
    /// There is a service for each connection.
    Connection(IpAddr),
}

impl PeerSource {
    fn address(&self, parts: &Parts) -> Option<IpAddr> {
        match self {
            Self::Unknown => None,
            Self::Request(peer) => Some(peer(parts)),
            Self::Connection(peer) => Some(*peer),
        }
    }
}

/// The store and the rules that all clones of a layer share.
pub(super) struct Gate<S> {
    pub(super) store: S,
    pub(super) rules: Box<[Rule]>,
    respond: Respond,
    /// Whether every decision is ready on its first poll.
    is_sync: bool,
    pub(super) clock: MonotonicClock,
    /// How many requests could not be settled or reported.
    pub(super) unsettled: AtomicU64,
    runtime: Option<Handle>,
}

/// What happens to a request.
pub(super) enum Ruling {
    /// It goes to the service. Its response carries these fields, and its end is awaited if anything is due.
    Admit(HeaderFields, Option<Box<OnEnd>>),
    Refuse(Response<Bytes>),
}

/// A rule that applies to a request, and what it says about the request's key.
pub(crate) struct Match<'r> {
    pub(crate) rule: &'r Rule,
    pub(crate) policy: Arc<Policy>,
    pub(crate) key: Vec<u8>,
    pub(crate) cost: u64,
    pub(crate) action: Action,
    /// By which the policy's limits are scaled.
    pub(crate) factor: Option<Factor>,
    /// The answer, where it takes no store.
    pub(crate) fixed: Option<Answer>,
}

impl Match<'_> {
    fn charge(&self) -> Charge<'_> {
        Charge::new(self.policy.name(), &self.key, self.cost).with_factor(self.factor)
    }

    /// Whether its units are reserved until the response has ended.
    fn reserves(&self) -> bool {
        self.rule.settle.is_some() || self.policy.reserves_only()
    }
}

impl<S: Store + 'static> Gate<S> {
    pub(super) fn new(store: S, rules: Vec<Rule>, respond: Respond) -> Self {
        let waits = rules.iter().filter_map(|rule| rule.key.as_ref()).any(Key::is_async);
        Self {
            is_sync: store.answers_at_once() && !waits,
            store,
            rules: rules.into_boxed_slice(),
            respond,
            clock: MonotonicClock::default(),
            unsettled: AtomicU64::new(0),
            // For responses that end outside of a runtime.
            runtime: Handle::try_current().ok(),
        }
    }

    fn runtime(&self) -> Option<Handle> {
        Handle::try_current().ok().or_else(|| self.runtime.clone())
    }

    /// Runs what is left to do after a response: at once if the store allows it, else as a task.
    pub(super) fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.store.answers_at_once() {
            now_or_never(work);
        } else if let Some(runtime) = self.runtime() {
            runtime.spawn(work);
        } else {
            self.unsettled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Decides without waiting, if keys and store allow it.
    pub(super) fn decide_now(
        self: &Arc<Self>,
        parts: &mut Parts,
        peer: &PeerSource,
    ) -> Option<Ruling> {
        if self.is_sync { now_or_never(self.decide(parts, peer)) } else { None }
    }

    /// Decides however long it takes, and returns the head of the request.
    pub(super) async fn decide_later(
        self: Arc<Self>,
        mut parts: Parts,
        peer: PeerSource,
    ) -> (Parts, Ruling) {
        let gate = Arc::clone(&self);
        let deciding = async move {
            let ruling = gate.decide(&mut parts, &peer).await;
            (parts, ruling)
        };
        let reserves = self.rules.iter().any(Rule::reserves);
        let Some(runtime) = self.runtime().filter(|_| reserves) else { return deciding.await };
        // The client may disconnect while the store answers. The task makes sure that what was reserved by
        // then is settled.
        match runtime.spawn(deciding).await {
            Ok(decided) => decided,
            Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
            Err(_) => {
                // The runtime shut down, and the head of the request with it.
                let (parts, ()) = Request::new(()).into_parts();
                let error = StoreError::failed(Failure::Unreachable, "the runtime has ended");
                let ruling = self.refuse(&parts, Reason::Store(&error));
                (parts, ruling)
            }
        }
    }

    async fn decide(self: &Arc<Self>, parts: &mut Parts, peer: &PeerSource) -> Ruling {
        let peer = peer.address(parts);
        let (mut enforced, mut others) = (Vec::new(), Vec::new());
        for rule in &self.rules {
            let Some(input) = rule.matches(parts, peer) else { continue };
            let key = match &rule.key {
                Some(key) => key.find(&input).await,
                // Builders make sure that there is one.
                None => Ok(FoundKey::default()),
            };
            let key = match key {
                Ok(key) => key,
                Err(_) if rule.is_trial() => continue,
                Err(error) => return self.refuse(parts, Reason::Key(&error)),
            };
            match rule.resolve(key, parts) {
                Ok(found) => {
                    let is_enforced = found.action == Action::Enforce;
                    if is_enforced { &mut enforced } else { &mut others }.push(found);
                }
                Err(_) if rule.is_trial() => {}
                Err(error) => return self.refuse(parts, Reason::Tier(&error)),
            }
        }
        if enforced.is_empty() && others.is_empty() {
            return Ruling::Admit(HeaderFields::default(), None);
        }
        let (mut charged, mut due) =
            (Vec::with_capacity(enforced.len() + others.len()), Due::default());
        // All or nothing: a blocked key keeps the other rules from charging.
        let is_blocked = others.iter().any(|found| found.action == Action::Block);
        let verb = if is_blocked { Verb::Peek } else { Verb::Check };
        if let Err(error) = self.ask(verb, enforced, &mut charged, &mut due).await {
            return self.refuse(parts, Reason::Store(&error));
        }
        for mut found in others {
            match found.fixed.take() {
                Some(answer) => charged.push(Charged::new(found, answer)),
                // Keys in shadow are not part of the others' all or nothing, and a store that fails to
                // answer about them does not refuse the request.
                None => _ = self.ask(verb, vec![found], &mut charged, &mut due).await,
            }
        }
        let checked = Checked::new(charged);
        if checked.is_refused() {
            // Reservations of keys in shadow end here. How the request would have gone is unknown.
            due.reports.clear();
            drop(OnEnd::new(self, &parts.method, due));
            return self.refuse(parts, Reason::Limited(&checked));
        }
        let fields = checked.fields();
        let checked = checked.after(parts.extensions.get());
        parts.extensions.insert(checked);
        Ruling::Admit(fields, OnEnd::new(self, &parts.method, due))
    }

    /// Asks the store about these matches together, and reserves what is to be settled.
    async fn ask(
        self: &Arc<Self>,
        verb: Verb,
        matches: Vec<Match<'_>>,
        charged: &mut Vec<Charged>,
        due: &mut Due,
    ) -> Result<(), StoreError> {
        if matches.is_empty() {
            return Ok(());
        }
        let charges: Vec<Charge<'_>> = matches.iter().map(Match::charge).collect();
        let (answers, held) = if verb == Verb::Check && matches.iter().any(Match::reserves) {
            let has_leases = matches.iter().any(|found| found.policy.shortest_lease().is_some());
            self.reserve(&charges, has_leases).await?
        } else {
            (self.store.apply(verb, &charges).await?, None)
        };
        if answers.len() != matches.len() {
            return Err(StoreError::failed(Failure::BadReply, "fewer answers than charges"));
        }
        due.add(&matches, &answers, held);
        let found = matches.into_iter().zip(answers);
        charged.extend(found.map(|(found, answer)| Charged::new(found, answer)));
        Ok(())
    }

    fn refuse(&self, parts: &Parts, reason: Reason<'_>) -> Ruling {
        let mut response = (self.respond)(&Refusal::new(parts, reason));
        if let Reason::Limited(checked) = reason {
            checked.fields().write_to(response.headers_mut());
            response.extensions_mut().insert(checked.clone());
        }
        Ruling::Refuse(response)
    }
}

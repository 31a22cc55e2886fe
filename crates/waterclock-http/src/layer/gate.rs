//! The decision about one request: matching rules, one question to the store, and a ruling.

use std::net::IpAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use tokio::runtime::Handle;
use waterclock::{Action, Charge, Failure, MonotonicClock, Store, StoreError, Verb};

use super::matches::{Match, Matches};
use super::settle::{Due, OnEnd};
use super::{Charged, Checked};
use crate::fields::ResponseFields;
use crate::key::{Key, KeyInput};
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
    Admit(ResponseFields, Option<Box<OnEnd>>),
    Refuse(Response<Bytes>),
}

impl<S: Store + 'static> Gate<S> {
    pub(super) fn new(store: S, mut rules: Vec<Rule>, respond: Respond) -> Self {
        rules.iter_mut().for_each(Rule::prepare);
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
        if !self.is_sync {
            return None;
        }
        let peer = peer.address(parts);
        let mut matches = Matches::default();
        for rule in &self.rules {
            let mut captured = None;
            if !rule.matches(parts, &mut captured) {
                continue;
            }
            let input = KeyInput { parts, peer, captured: captured.as_ref() };
            let key = match rule.find_now(&input) {
                Some(key) => key,
                None => now_or_never(rule.find(&input))?,
            };
            if let Err(undecided) = matches.add(rule, key, parts) {
                return Some(self.refuse(parts, undecided.reason()));
            }
        }
        if matches.is_empty() {
            return Some(Ruling::Admit(ResponseFields::None, None));
        }
        let Some(only) = matches.only_plain() else {
            let asked = now_or_never(self.ask_all(matches))?;
            return Some(self.conclude(parts, asked));
        };
        match self.store.apply_one_now(Verb::Check, &only.charge())? {
            Ok(answer) => {
                let checked = Checked::one(Charged::new(only, answer));
                match checked.prepared_fields(only.rule.prepared.as_ref()) {
                    Some(fields) => {
                        pass_on(parts, checked);
                        Some(Ruling::Admit(fields, None))
                    }
                    None => Some(self.conclude(parts, Ok((checked, Due::default())))),
                }
            }
            Err(error) => Some(self.refuse(parts, Reason::Store(&error))),
        }
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
        let mut matches = Matches::default();
        for rule in &self.rules {
            let mut captured = None;
            if !rule.matches(parts, &mut captured) {
                continue;
            }
            let input = KeyInput { parts, peer, captured: captured.as_ref() };
            if let Err(undecided) = matches.add(rule, rule.find(&input).await, parts) {
                return self.refuse(parts, undecided.reason());
            }
        }
        if matches.is_empty() {
            return Ruling::Admit(ResponseFields::None, None);
        }
        let asked = self.ask_all(matches).await;
        self.conclude(parts, asked)
    }

    /// Asks the store about all that a request matches: those that are enforced together, the others one by one.
    async fn ask_all(self: &Arc<Self>, matches: Matches<'_>) -> Result<(Checked, Due), StoreError> {
        let (enforced, others) = matches.split();
        let (mut charged, mut due) =
            (Vec::with_capacity(enforced.len() + others.len()), Due::default());
        // All or nothing: a blocked key keeps the other rules from charging.
        let is_blocked = others.iter().any(|found| found.action == Action::Block);
        let verb = if is_blocked { Verb::Peek } else { Verb::Check };
        self.ask(verb, enforced, &mut charged, &mut due).await?;
        for mut found in others {
            match found.fixed.take() {
                Some(answer) => charged.push(Charged::new(&found, *answer)),
                // Keys in shadow are not part of the others' all or nothing, and a store that fails to
                // answer about them does not refuse the request.
                None => _ = self.ask(verb, vec![found], &mut charged, &mut due).await,
            }
        }
        Ok((Checked::new(charged), due))
    }

    /// What follows from the store's answers.
    fn conclude(
        self: &Arc<Self>,
        parts: &mut Parts,
        asked: Result<(Checked, Due), StoreError>,
    ) -> Ruling {
        let (checked, mut due) = match asked {
            Ok(asked) => asked,
            Err(error) => return self.refuse(parts, Reason::Store(&error)),
        };
        if checked.is_refused() {
            // Reservations of keys in shadow end here. How the request would have gone is unknown.
            due.reports.clear();
            drop(OnEnd::new(self, &parts.method, due));
            return self.refuse(parts, Reason::Limited(&checked));
        }
        let fields = ResponseFields::Any(checked.fields());
        pass_on(parts, checked);
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
        let found = matches.iter().zip(answers);
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

/// Leaves the decisions to the handler, behind those of outer layers.
// As large as they are, they move once less.
#[inline(always)]
fn pass_on(parts: &mut Parts, checked: Checked) {
    match parts.extensions.get::<Checked>() {
        Some(earlier) => {
            let both = earlier.and(&checked);
            parts.extensions.insert(both);
        }
        None => _ = parts.extensions.insert(checked),
    }
}

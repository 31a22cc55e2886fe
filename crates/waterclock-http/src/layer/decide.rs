//! One request: which rules it falls under, what the store says, and what follows.

use std::net::IpAddr;
use std::panic::resume_unwind;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use tokio::runtime::Handle;
use waterclock::{Charge, Failure, MonotonicClock, Store, StoreError, Verb};

use super::Checked;
use super::after::After;
use super::hold::{Places, Said};
use super::line::{Decided, Line};
use crate::at_once::at_once;
use crate::fields::Fields;
use crate::key::{Key, KeyError, Seen};
use crate::refusal::{Reason, Refusal};
use crate::rule::Rule;

pub(super) type Respond = Arc<dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync>;

/// Who a request's connection comes from.
#[derive(Clone)]
pub(super) enum PeerOf {
    /// No key asks.
    Nobody,
    /// It stands in the request.
    Request(Arc<dyn Fn(&Parts) -> IpAddr + Send + Sync>),
    /// There is a service for each connection.
    Connection(IpAddr),
}

impl PeerOf {
    fn of(&self, parts: &Parts) -> Option<IpAddr> {
        match self {
            Self::Nobody => None,
            Self::Request(peer) => Some(peer(parts)),
            Self::Connection(peer) => Some(*peer),
        }
    }
}

/// What all clones of a layer share.
pub(super) struct Gate<S> {
    pub(super) store: S,
    pub(super) rules: Box<[Rule]>,
    respond: Respond,
    /// Whether nobody has to wait for a decision.
    pub(super) at_once: bool,
    pub(super) clock: MonotonicClock,
    /// How often something could not be settled.
    pub(super) unsettled: AtomicU64,
    runtime: Option<Handle>,
}

/// What becomes of a request.
pub(super) enum Ruling {
    Admit(Admitted),
    Refuse(Response<Bytes>),
}

/// What a response has to carry, and what is to be done when it has ended.
pub(super) struct Admitted {
    pub(super) fields: Fields,
    pub(super) after: Option<Box<After>>,
}

/// Why nothing was decided.
enum Undecided {
    Key(KeyError),
    Store(StoreError),
}

impl From<StoreError> for Undecided {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl<S: Store + 'static> Gate<S> {
    pub(super) fn new(store: S, rules: Vec<Rule>, respond: Respond) -> Self {
        let takes_time = rules.iter().filter_map(|rule| rule.key.as_ref()).any(Key::takes_time);
        let at_once = store.answers_at_once() && !takes_time;
        let rules = rules.into_boxed_slice();
        let (clock, unsettled) = (MonotonicClock::default(), AtomicU64::new(0));
        // For responses that end where there is none.
        let runtime = Handle::try_current().ok();
        Self { store, rules, respond, at_once, clock, unsettled, runtime }
    }

    fn runtime(&self) -> Option<Handle> {
        Handle::try_current().ok().or_else(|| self.runtime.clone())
    }

    /// Does what is left to do when a request is answered: at once where that can be, else behind its back.
    pub(super) fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.store.answers_at_once() {
            at_once(work);
        } else if let Some(runtime) = self.runtime() {
            runtime.spawn(work);
        } else {
            self.unsettled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Decides without waiting, where keys and store allow it.
    pub(super) fn decide_now(self: &Arc<Self>, parts: &mut Parts, peer: &PeerOf) -> Option<Ruling> {
        let decided = match self.at_once {
            true => at_once(self.ask(parts, peer.of(parts)))?,
            false => return None,
        };
        Some(self.rule_on(parts, decided))
    }

    /// The same, however long it takes. Gives back the head of the request.
    pub(super) async fn decide(self: Arc<Self>, parts: Parts, peer: PeerOf) -> (Parts, Ruling) {
        match self.runtime().filter(|_| self.rules.iter().any(Rule::holds)) {
            // Whoever asks may go away while the store answers; what is held then is settled all the same.
            Some(runtime) => {
                let deciding = runtime.spawn(Arc::clone(&self).decide_here(parts, peer));
                match deciding.await {
                    Ok(decided) => decided,
                    Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
                    Err(_) => self.end_with_the_runtime(),
                }
            }
            None => self.decide_here(parts, peer).await,
        }
    }

    /// The head of the request has ended with it.
    fn end_with_the_runtime(&self) -> (Parts, Ruling) {
        let (parts, ()) = Request::new(()).into_parts();
        let error = StoreError::failed(Failure::Unreachable, "the runtime has ended");
        let ruling = self.refuse(&parts, Reason::Store(&error));
        (parts, ruling)
    }

    async fn decide_here(self: Arc<Self>, mut parts: Parts, peer: PeerOf) -> (Parts, Ruling) {
        let decided = self.ask(&parts, peer.of(&parts)).await;
        let ruling = self.rule_on(&mut parts, decided);
        (parts, ruling)
    }

    async fn ask(
        self: &Arc<Self>,
        parts: &Parts,
        peer: Option<IpAddr>,
    ) -> Result<Decided, Undecided> {
        let mut lines: Vec<Line<'_>> = Vec::new();
        for (rule, seen) in self.applying(parts, peer) {
            match rule.find_key(&seen).in_bounds().await {
                Ok(key) => lines.push(rule.line(key, parts)),
                // What only watches turns nobody away.
                Err(_) if rule.only_watches() => {}
                Err(error) => return Err(Undecided::Key(error)),
            }
        }
        // Those in shadow take no part in the others' all or nothing: they see every request.
        let (lines, in_shadow): (Vec<_>, Vec<_>) = match lines.iter().all(|line| line.is_enrolled) {
            true => (lines, Vec::new()),
            false => lines.into_iter().partition(|line| line.is_enrolled),
        };
        let mut decided = Decided::default();
        let said = self.decide_on(&lines).await?;
        decided.add(&lines, said);
        for line in in_shadow {
            let lines = slice::from_ref(&line);
            // Nor do they turn anybody away by having no answer.
            if let Ok(said) = self.decide_on(lines).await {
                decided.add(lines, said);
            }
        }
        Ok(decided)
    }

    /// Asks the store; what is to be settled afterwards is held until then.
    async fn decide_on(self: &Arc<Self>, lines: &[Line<'_>]) -> Result<Said, StoreError> {
        let charges: Vec<Charge<'_>> = lines.iter().map(Line::charge).collect();
        if charges.is_empty() {
            return Ok((Vec::new(), None));
        }
        let (answers, id) = if lines.iter().any(Line::holds) {
            let leases = lines.iter().any(|line| line.policy.shortest_lease().is_some());
            self.hold(&charges, if leases { Places::Some } else { Places::None }).await?
        } else {
            (self.store.apply(Verb::Check, &charges).await?, None)
        };
        match answers.len() == lines.len() {
            true => Ok((answers, id)),
            false => Err(StoreError::failed(Failure::BadReply, "fewer answers than questions")),
        }
    }

    fn applying<'a>(
        &'a self,
        parts: &'a Parts,
        peer: Option<IpAddr>,
    ) -> impl Iterator<Item = (&'a Rule, Seen<'a>)> {
        self.rules.iter().filter_map(move |rule| {
            rule.matches(parts).map(|captured| (rule, Seen { parts, peer, captured }))
        })
    }

    /// What follows.
    fn rule_on(self: &Arc<Self>, parts: &mut Parts, decided: Result<Decided, Undecided>) -> Ruling {
        match decided {
            Ok(decided) => self.rule_on_charges(parts, decided),
            Err(Undecided::Key(error)) => self.refuse(parts, Reason::Key(&error)),
            Err(Undecided::Store(error)) => self.refuse(parts, Reason::Store(&error)),
        }
    }

    fn rule_on_charges(self: &Arc<Self>, parts: &mut Parts, decided: Decided) -> Ruling {
        let Decided { charges, mut dues } = decided;
        if charges.is_empty() {
            return Ruling::Admit(Admitted { fields: Fields::default(), after: None });
        }
        let checked = Checked::new(charges);
        if checked.is_refused() {
            // What those hold that only watch ends with this; how it went, nobody knows.
            dues.reports.clear();
            drop((!dues.is_empty()).then(|| After::new(self, &parts.method, dues)));
            return self.refuse(parts, Reason::Limited(&checked));
        }
        let fields = checked.fields();
        let checked = checked.after(parts.extensions.get());
        parts.extensions.insert(checked);
        let after = (!dues.is_empty()).then(|| After::new(self, &parts.method, dues));
        Ruling::Admit(Admitted { fields, after })
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

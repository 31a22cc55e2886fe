//! One request: which rules it falls under, what the store says, and what follows.

use std::net::IpAddr;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tollgate::{Answer, Charge, Failure, MonotonicClock, Policy, Store, StoreError, Verb};

use super::after::{After, Held};
use super::{Charged, Checked};
use crate::at_once::at_once;
use crate::fields::{Fields, HeaderStyle};
use crate::key::{Found, Key, MissingKey, Seen};
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

/// One rule that applies.
struct Line<'r> {
    rule: &'r Rule,
    policy: &'r Arc<Policy>,
    key: Vec<u8>,
    cost: u64,
    /// Whether the policy is rolled out to this key; in shadow otherwise.
    is_enrolled: bool,
}

impl Line<'_> {
    fn charge(&self) -> Charge<'_> {
        Charge { policy: self.policy.name(), key: &self.key, cost: self.cost }
    }
}

/// Why nothing was decided.
enum Undecided {
    MissingKey(MissingKey),
    Store(StoreError),
}

impl<S: Store + 'static> Gate<S> {
    pub(super) fn new(store: S, rules: Vec<Rule>, respond: Respond) -> Self {
        let takes_time = rules.iter().filter_map(|rule| rule.key.as_ref()).any(Key::takes_time);
        let at_once = store.answers_at_once() && !takes_time;
        let rules = rules.into_boxed_slice();
        Self { store, rules, respond, at_once, clock: MonotonicClock::default() }
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
    pub(super) async fn decide(self: Arc<Self>, mut parts: Parts, peer: PeerOf) -> (Parts, Ruling) {
        let decided = self.ask(&parts, peer.of(&parts)).await;
        let ruling = self.rule_on(&mut parts, decided);
        (parts, ruling)
    }

    async fn ask(&self, parts: &Parts, peer: Option<IpAddr>) -> Result<Decided, Undecided> {
        let mut lines: Vec<Line<'_>> = Vec::new();
        for (rule, seen) in self.applying(parts, peer) {
            let key = rule.find_key(&seen).wait().await.map_err(Undecided::MissingKey)?;
            lines.push(rule.line(key, parts));
        }
        // Those in shadow take no part in the others' all or nothing: they see every request.
        let (lines, in_shadow): (Vec<_>, Vec<_>) = match lines.iter().all(|line| line.is_enrolled) {
            true => (lines, Vec::new()),
            false => lines.into_iter().partition(|line| line.is_enrolled),
        };
        let answers = self.apply(&lines).await?;
        let mut decided = Decided::default();
        for (line, answer) in lines.into_iter().zip(answers) {
            decided.add(line, answer);
        }
        for line in in_shadow {
            let answers = self.apply(slice::from_ref(&line)).await?;
            answers.into_iter().for_each(|answer| decided.add_in_shadow(&line, answer));
        }
        Ok(decided)
    }

    /// One answer for each line.
    async fn apply(&self, lines: &[Line<'_>]) -> Result<Vec<Answer>, Undecided> {
        let charges: Vec<Charge<'_>> = lines.iter().map(Line::charge).collect();
        if charges.is_empty() {
            return Ok(Vec::new());
        }
        match self.store.apply(Verb::Check, &charges).await.map_err(Undecided::Store)? {
            answers if answers.len() == lines.len() => Ok(answers),
            _ => {
                let error = StoreError::failed(Failure::BadReply, "fewer answers than questions");
                Err(Undecided::Store(error))
            }
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
            Err(Undecided::MissingKey(missing)) => self.refuse(parts, Reason::MissingKey(&missing)),
            Err(Undecided::Store(error)) => self.refuse(parts, Reason::Store(&error)),
        }
    }

    fn rule_on_charges(self: &Arc<Self>, parts: &mut Parts, decided: Decided) -> Ruling {
        let Decided { charges, held } = decided;
        if charges.is_empty() {
            return Ruling::Admit(Admitted { fields: Fields::default(), after: None });
        }
        let checked = Checked::new(charges);
        if checked.is_refused() {
            return self.refuse(parts, Reason::Limited(&checked));
        }
        let fields = checked.fields();
        let checked = checked.after(parts.extensions.get());
        parts.extensions.insert(checked);
        let after = (!held.is_empty()).then(|| After::new(Arc::clone(self), held));
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

impl Rule {
    fn find_key<'a>(&'a self, seen: &'a Seen<'a>) -> Found<'a> {
        match &self.key {
            Some(key) => key.find(seen),
            // Builders see to it that there is one.
            None => Found::Now(Ok(Vec::new())),
        }
    }

    fn line(&self, key: Vec<u8>, parts: &Parts) -> Line<'_> {
        let is_enrolled =
            self.rollout.is_everybody() || self.rollout.enrols(self.policy.name(), &key);
        let (policy, cost) = (self.policy_for(parts), self.cost_for(parts));
        Line { rule: self, policy, key, cost, is_enrolled }
    }
}

/// What the store said about every line, and what is to be settled afterwards.
#[derive(Default)]
struct Decided {
    charges: Vec<Charged>,
    held: Vec<Held>,
}

impl Decided {
    fn add(&mut self, line: Line<'_>, answer: Answer) {
        // What a policy in shadow would have refused, it has not charged.
        let is_shadow = line.policy.is_shadow() && !answer.decision.shadow_refused_by().is_empty();
        let units = if is_shadow { 0 } else { answer.decision.granted() };
        self.charges.push(Charged::new(line.rule, line.policy, line.cost, answer));
        self.held.extend(Held::of(line.rule, line.policy, line.key, units));
    }

    /// The answer of a policy that is not rolled out to this key.
    fn add_in_shadow(&mut self, line: &Line<'_>, mut answer: Answer) {
        let units = answer.decision.granted();
        answer.decision = answer.decision.in_shadow(line.cost);
        let mut charged = Charged::new(line.rule, line.policy, line.cost, answer);
        charged.headers = HeaderStyle::None;
        self.charges.push(charged);
        self.held.extend(Held::of(line.rule, line.policy, line.key.clone(), units));
    }
}

//! One request: which rules it falls under, what the store says, and what follows.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tollgate::{Answer, Charge, Failure, MonotonicClock, Policy, Store, StoreError, Verb};

use super::after::{After, Held};
use super::{Charged, Checked};
use crate::fields::Fields;
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
    takes_time: bool,
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
}

impl Line<'_> {
    fn charge(&self) -> Charge<'_> {
        Charge { policy: self.policy.name(), key: &self.key, cost: self.cost }
    }
}

impl<S: Store + 'static> Gate<S> {
    pub(super) fn new(store: S, rules: Vec<Rule>, respond: Respond) -> Self {
        let takes_time = rules.iter().filter_map(|rule| rule.key.as_ref()).any(Key::takes_time);
        let rules = rules.into_boxed_slice();
        Self { store, rules, respond, takes_time, clock: MonotonicClock::default() }
    }

    /// Decides without waiting, where key and store allow it.
    pub(super) fn decide_now(self: &Arc<Self>, parts: &mut Parts, peer: &PeerOf) -> Option<Ruling> {
        if self.takes_time {
            return None;
        }
        let peer = peer.of(parts);
        let mut lines = Vec::new();
        for (rule, seen) in self.applying(parts, peer) {
            match rule.find_key(&seen) {
                Found::Now(Ok(key)) => lines.push(rule.line(key, parts)),
                Found::Now(Err(missing)) => {
                    return Some(self.refuse(parts, Reason::MissingKey(&missing)));
                }
                Found::Later(_) => return None,
            }
        }
        let answers = match &*lines {
            [] => Ok(Vec::new()),
            [line] => self.store.apply_now(Verb::Check, &[line.charge()])?,
            _ => self.store.apply_now(Verb::Check, &charges(&lines))?,
        };
        let decided = decided(lines, answers);
        Some(self.rule_on(parts, decided))
    }

    /// The same, however long it takes. Gives back the head of the request.
    pub(super) async fn decide(self: Arc<Self>, mut parts: Parts, peer: PeerOf) -> (Parts, Ruling) {
        let decided = self.ask(&parts, peer.of(&parts)).await;
        let ruling = match decided {
            Ok(decided) => self.rule_on(&mut parts, decided),
            Err(missing) => self.refuse(&parts, Reason::MissingKey(&missing)),
        };
        (parts, ruling)
    }

    async fn ask(
        &self,
        parts: &Parts,
        peer: Option<IpAddr>,
    ) -> Result<Result<Decided, StoreError>, MissingKey> {
        let mut lines = Vec::new();
        for (rule, seen) in self.applying(parts, peer) {
            let key = rule.find_key(&seen).wait().await?;
            lines.push(rule.line(key, parts));
        }
        let answers = match lines.is_empty() {
            true => Ok(Vec::new()),
            false => self.store.apply(Verb::Check, &charges(&lines)).await,
        };
        Ok(decided(lines, answers))
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

    fn rule_on(
        self: &Arc<Self>,
        parts: &mut Parts,
        decided: Result<Decided, StoreError>,
    ) -> Ruling {
        let Decided { charges, held } = match decided {
            Ok(decided) => decided,
            Err(error) => return self.refuse(parts, Reason::Store(&error)),
        };
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
        Line { rule: self, policy: self.policy_for(parts), key, cost: self.cost_for(parts) }
    }
}

fn charges<'l>(lines: &'l [Line<'_>]) -> Vec<Charge<'l>> {
    lines.iter().map(Line::charge).collect()
}

/// What the store said about every line, and what is to be settled afterwards.
struct Decided {
    charges: Vec<Charged>,
    held: Vec<Held>,
}

fn decided(
    lines: Vec<Line<'_>>,
    answers: Result<Vec<Answer>, StoreError>,
) -> Result<Decided, StoreError> {
    let answers = answers?;
    if answers.len() != lines.len() {
        return Err(StoreError::failed(Failure::BadReply, "fewer answers than questions"));
    }
    let mut decided = Decided { charges: Vec::with_capacity(lines.len()), held: Vec::new() };
    for (line, answer) in lines.into_iter().zip(answers) {
        decided.held.extend(Held::of(line.rule, line.policy, line.key, &answer));
        decided.charges.push(Charged {
            name: Arc::clone(&line.rule.policy),
            policy: Arc::clone(line.policy),
            cost: line.cost,
            headers: line.rule.headers,
            answer,
        });
    }
    Ok(decided)
}

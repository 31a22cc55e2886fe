//! One request, decided as a whole.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tonic::Status;
use waterclock::{Source, StoreError, Verb};

use super::failure;
use super::request::{Asked, Hits, Instead};
use crate::engine::{ActivePolicy, Caller, Check, Key, Plan, Rate, Reply, TIER};
use crate::observe::Face;
use crate::rules::{Effect, Rule};
use crate::server::Server;

/// How long the store may take: Envoy waits 20 ms if nobody tells it otherwise.
const PATIENCE: Duration = Duration::from_millis(15);
/// When there is no more use in an answer, whatever has held it up.
const TOO_LATE: Duration = Duration::from_millis(18);

/// What came of one descriptor.
pub(super) enum Outcome<'p> {
    /// Nothing limits it.
    Free,
    /// Its rule, or its own limit of 0, refuses whatever comes.
    Refused(&'p Rule),
    /// A policy has decided.
    Decided(Box<Decided<'p>>),
}

/// A policy's answer, and to what.
pub(super) struct Decided<'p> {
    pub(super) rule: &'p Rule,
    pub(super) served: &'p ActivePolicy,
    pub(super) numbers: Option<Rate>,
    /// What is given back is never refused; the reply is about the same cost if it were charged.
    pub(super) gives_back: bool,
    pub(super) reply: Reply,
}

/// What a descriptor comes to before anybody is asked.
enum Line<'p, 'r> {
    Free,
    Refused(&'p Rule),
    Asked {
        rule: &'p Rule,
        served: &'p ActivePolicy,
        key: Key<'static>,
        tier: Option<&'r str>,
        hits: Hits,
        numbers: Option<Rate>,
    },
}

/// One outcome for each descriptor. Unless all admit, nothing is charged and nothing given back.
pub(super) async fn decide<'p>(
    server: &Server,
    plan: &'p Plan,
    domain: &str,
    asked: &[Asked<'_>],
) -> Result<Vec<Outcome<'p>>, Status> {
    let now = Instant::now();
    let lines = lines(plan, domain, asked)?;
    let mut turn = Turn { server, until: now + PATIENCE, replies: vec![None; lines.len()] };
    timeout_at(now + TOO_LATE, turn.take(&lines))
        .await
        .map_err(|_| failure::late())?
        .map_err(|error| failure::of_store(&error))?;
    let outcome = |(line, reply)| match (line, reply) {
        (Line::Asked { rule, served, numbers, hits, .. }, Some(reply)) => {
            let gives_back = matches!(hits, Hits::Refund(_));
            Outcome::Decided(Box::new(Decided { rule, served, numbers, gives_back, reply }))
        }
        (Line::Refused(rule), _) => Outcome::Refused(rule),
        (Line::Free | Line::Asked { .. }, _) => Outcome::Free,
    };
    Ok(lines.into_iter().zip(turn.replies).map(outcome).collect())
}

/// Finds the rule of each descriptor, and leaves out those that another one replaces.
fn lines<'p, 'r>(
    plan: &'p Plan,
    domain: &str,
    asked: &[Asked<'r>],
) -> Result<Vec<Line<'p, 'r>>, Status> {
    let find = |asked: &Asked<'_>| plan.rules().find(domain, &asked.entries).map(|rule| &**rule);
    let rules: Vec<Option<&Rule>> = asked.iter().map(find).collect();
    let is_replaced = |rule: &Rule| {
        let others = rules.iter().flatten();
        let mut replaced = others.flat_map(|other| other.replaces());
        rule.name().is_some_and(|name| replaced.any(|other| other == name))
    };
    let line = |(at, (asked, rule)): (usize, (&Asked<'r>, &Option<&'p Rule>))| {
        let Some(rule) = rule.filter(|rule| !is_replaced(rule)) else { return Ok(Line::Free) };
        let served = match (rule.effect(), asked.limit) {
            (Effect::Admit, _) => return Ok(Line::Free),
            (Effect::Refuse, _) => return Ok(Line::Refused(rule)),
            // To give back what cannot have been taken, or to look, is no reason to refuse.
            (_, Some(Instead::Nothing)) if matches!(asked.hits, Hits::Refund(_)) => {
                return Ok(Line::Free);
            }
            (_, Some(Instead::Nothing)) => return Ok(Line::Refused(rule)),
            (Effect::Limit(served), _) => served,
        };
        let key = rule.key(served, domain, &asked.entries);
        let key = key.map_err(|bad| failure::of_key(at, &bad))?;
        let numbers = match asked.limit {
            Some(Instead::Rate(numbers)) => Some(numbers),
            _ => None,
        };
        let tier = asked.entries.iter().find(|(key, _)| *key == TIER).map(|(_, tier)| *tier);
        Ok(Line::Asked { rule, served, key, tier, hits: asked.hits, numbers })
    };
    asked.iter().zip(&rules).enumerate().map(line).collect()
}

/// The calls that one request takes: mostly one.
struct Turn<'s> {
    server: &'s Server,
    until: Instant,
    replies: Vec<Option<Reply>>,
}

impl Turn<'_> {
    /// First the peeks, which can only refuse; then the charges, all or none; then what is given back.
    async fn take(&mut self, lines: &[Line<'_, '_>]) -> Result<(), StoreError> {
        let mut refused = lines.iter().any(|line| matches!(line, Line::Refused(_)));
        // A peek asks whether anything is left at all.
        refused |= self.ask(Verb::Peek, lines, |hits| (hits == Hits::Peek).then_some(1)).await?;
        let charge = |hits| if let Hits::Charge(units) = hits { Some(units) } else { None };
        let verb = if refused { Verb::Peek } else { Verb::Check };
        refused |= self.ask(verb, lines, charge).await?;
        let refund = |hits| match hits {
            Hits::Refund(_) if refused => Some(0),
            Hits::Refund(units) => Some(units),
            _ => None,
        };
        let verb = if refused { Verb::Peek } else { Verb::Refund };
        self.ask(verb, lines, refund).await?;
        Ok(())
    }

    /// Asks about the lines that have so many units, in one call. Says whether one was refused.
    async fn ask(
        &mut self,
        verb: Verb,
        lines: &[Line<'_, '_>],
        units: impl Fn(Hits) -> Option<u64>,
    ) -> Result<bool, StoreError> {
        let mut asks = Vec::new();
        let mut places = Vec::new();
        for (place, line) in lines.iter().enumerate() {
            if let Line::Asked { served, key, tier, hits, numbers, .. } = line
                && let Some(units) = units(*hits)
            {
                let cost = served.scope().policy().requests(units);
                asks.push(Check { policy: served, key, cost, tier: *tier, rate: *numbers });
                places.push(place);
            }
        }
        if asks.is_empty() {
            return Ok(false);
        }
        let patience = self.until.saturating_duration_since(Instant::now());
        let engine = &self.server.engine;
        let replies = engine
            .apply(Caller { face: Face::Grpc, deadline: Some(patience) }, verb, &asks)
            .await?;
        let mut refused = false;
        for (place, reply) in places.into_iter().zip(replies) {
            refused |= reply.is_refusal();
            self.replies[place] = Some(reply);
        }
        Ok(refused)
    }
}

impl Decided<'_> {
    /// Whether this one refused, and did not merely stand back for another.
    pub(super) fn has_refused(&self) -> bool {
        let answer = &self.reply.answer;
        let by_itself = !answer.decision.refused_by().is_empty() || answer.source == Source::Policy;
        !self.gives_back && self.reply.is_refusal() && by_itself
    }
}

//! A policy on a stage of its own: a store in this process whose clock the events turn.

mod ruling;

pub use self::ruling::{Ruling, Turn};

use waterclock::store::now_or_never;
use waterclock::{Decision, ManualClock, MemoryStore, Store, StoreError, Timestamp, Verb};

use crate::trace::{Event, Op};

/// Keys that have something to remember at the same time. Far more than a machine's log has, and few enough
/// that a table of them starts small.
const MOST_KEYS: usize = 1 << 23;

/// A store whose clock the trace turns.
pub struct Stage<'a> {
    ruling: &'a Ruling,
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
}

impl<'a> Stage<'a> {
    pub fn set(ruling: &'a Ruling) -> Result<Stage<'a>, StoreError> {
        let clock = ManualClock::default();
        let store = MemoryStore::new(MOST_KEYS, clock.clone());
        at_once(store.set_policy(ruling.spec().built.clone()))?;
        at_once(ruling.set_variants(&store))?;
        Ok(Stage { ruling, store, clock })
    }

    /// What there is to know about the decisions, if they were not all made as they would be served.
    pub fn remark(&self) -> Option<String> {
        let many = format!(
            "more than {MOST_KEYS} keys were limited at the same time, so that some shared a budget"
        );
        (self.store.overflowed() > 0).then_some(many)
    }

    /// Plays an event: what it met, and what is told of the decision.
    pub fn play(&self, event: &Event<'_>) -> Result<(Turn<'a>, Decision), StoreError> {
        let turn = self.ruling.turn(event)?;
        let decision = self.decide(&turn, event)?;
        let told = turn.told(&event.key, decision);
        Ok((turn, told))
    }

    fn decide(&self, turn: &Turn<'_>, event: &Event<'_>) -> Result<Decision, StoreError> {
        let now = Timestamp::from_micros(event.t_us);
        let gives_back = event.op.gives_back();
        if !gives_back && let Some(decision) = turn.answer(now) {
            return Ok(decision);
        }
        self.clock.set(now);
        let (verb, charge) = (event.verb(), self.ruling.charge(turn, event));
        if gives_back && !turn.is_usual() {
            at_once(self.store.apply(verb, &[charge]))?;
            let peek = Event { op: Op::Peek, ..event.under(0) };
            return self.decide(turn, &peek);
        }
        match (verb, charge.cost.plain()) {
            (Verb::Check, Some(units)) => {
                at_once(self.store.check_n(charge.policy, charge.key, units))
            }
            (Verb::Peek, Some(units)) => {
                at_once(self.store.peek_n(charge.policy, charge.key, units))
            }
            _ => {
                let answers = at_once(self.store.apply(verb, &[charge]))?;
                answers.first().map(|answer| answer.decision).ok_or_else(no_answer)
            }
        }
    }
}

pub fn no_answer() -> StoreError {
    StoreError::failed(waterclock::Failure::BadReply, "no answer to a question")
}

/// A store of this process keeps nobody waiting.
fn at_once<T>(future: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    now_or_never(future).unwrap_or_else(|| {
        Err(StoreError::failed(waterclock::Failure::Timeout, "memory does not answer at once"))
    })
}

//! The short way of a lone check whose state lives in this process: no allocation, nobody waits.

use tollgate::{Decision, Verb};

use super::Engine;
use super::key::{Key, Standing};
use super::place::Place;
use super::reply::outcome;
use super::served::Served;
use crate::observe::Face;

impl Engine {
    /// Decides as [`Engine::apply`] would with this one ask, or says `None` where only that can: a
    /// store elsewhere, an exception for the key, a verb that is rare. Measures no time; a face that
    /// asks many of these does that for all of them together.
    #[inline]
    pub fn decide_now(
        &self,
        face: Face,
        verb: Verb,
        served: &Served,
        key: &Key<'_>,
        cost: u64,
    ) -> Option<Decision> {
        let Place::Memory(store) = &self.place else { return None };
        if !matches!(key.standing(), Standing::Limited)
            || self.exceptions.of(served.name(), key).is_some()
        {
            return None;
        }
        let decision = match verb {
            Verb::Check => store.check(served.name(), key.bytes(), cost),
            Verb::Peek => store.peek(served.name(), key.bytes(), cost),
            Verb::Refund | Verb::Reset => return None,
        };
        // A policy that the store does not know is a complaint for the long way to make.
        let decision = decision.ok()?;
        if verb == Verb::Check {
            served.tally().count(face, outcome(&served.spec().built, &decision));
        }
        Some(decision)
    }
}

//! A few consecutive events, decided together.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use waterclock::{Decision, StoreError, Timestamp};
use waterclock_redis::RedisStore;

use super::events::Next;
use crate::failure::Failure;
use crate::stage::{Ruling, no_answer};
use crate::trace::{Event, Op};

/// How many events may be under way at once; with more of them a replay is no faster.
pub(super) const WINDOW: usize = 256;

pub(super) struct Window {
    pub(super) events: Arc<[Event<'static>]>,
    /// What comes after the events, if it is no event.
    pub(super) complaint: Option<Failure>,
}

impl Window {
    pub(super) fn new(next: Vec<Next>) -> Window {
        let mut complaint = None;
        let keep = |next: Next| next.map_err(|failure| complaint = Some(failure)).ok();
        let events = next.into_iter().filter_map(keep).collect();
        Window { events, complaint }
    }

    /// The decisions in the order of the events, up to the first that the store failed to make.
    ///
    /// Keys do not depend on each other, so all of them are asked for at once; the events of one
    /// key wait for each other.
    pub(super) async fn decide(
        &self,
        store: &RedisStore,
        ruling: &Arc<Ruling>,
    ) -> (Vec<Decision>, Option<StoreError>) {
        let mut under_way = JoinSet::new();
        for places in self.by_key() {
            under_way.spawn(follow(store.clone(), Arc::clone(ruling), self.events.clone(), places));
        }
        let mut decisions = vec![None; self.events.len()];
        let mut trouble = None;
        while let Some(done) = under_way.join_next().await {
            let (decided, failed) = done.unwrap_or_else(|gone| (Vec::new(), Some(lost(&gone))));
            decided.into_iter().for_each(|(place, decision)| decisions[place] = Some(decision));
            trouble = trouble.or(failed);
        }
        (decisions.into_iter().map_while(|decision| decision).collect(), trouble)
    }

    /// The places of each key's events, in their order.
    fn by_key(&self) -> impl Iterator<Item = Vec<usize>> {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, event) in self.events.iter().enumerate() {
            places.entry(&event.key).or_default().push(place);
        }
        places.into_values()
    }
}

/// Decides the events at these places one after the other, as long as the store does.
async fn follow(
    store: RedisStore,
    ruling: Arc<Ruling>,
    events: Arc<[Event<'static>]>,
    places: Vec<usize>,
) -> (Vec<(usize, Decision)>, Option<StoreError>) {
    let mut decided = Vec::with_capacity(places.len());
    for place in places {
        match decide(&store, &ruling, &events[place]).await {
            Ok(decision) => decided.push((place, decision)),
            Err(error) => return (decided, Some(error)),
        }
    }
    (decided, None)
}

async fn decide(
    store: &RedisStore,
    ruling: &Ruling,
    event: &Event<'static>,
) -> Result<Decision, StoreError> {
    let (turn, now) = (ruling.turn(event)?, Timestamp::from_micros(event.t_us));
    let gives_back = event.op.gives_back();
    if !gives_back && let Some(decision) = turn.answer(now) {
        return Ok(decision);
    }
    let charge = ruling.charge(&turn, event);
    if gives_back && !turn.is_usual() {
        store.apply_at(now, event.verb(), &[charge]).await?;
        let peek = Event { op: Op::Peek, ..event.under(0).into_owned() };
        return Box::pin(decide(store, ruling, &peek)).await;
    }
    let answers = store.apply_at(now, event.verb(), &[charge]).await?;
    answers.into_iter().next().map(|answer| answer.decision).ok_or_else(no_answer)
}

/// A question that was dropped without an answer.
fn lost(gone: &tokio::task::JoinError) -> StoreError {
    StoreError::failed(waterclock::Failure::BadReply, gone)
}

//! A trace through the scripts of a Redis store, in the trace's own time.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::sleep;
use waterclock::{Answer, Policy, Store, StoreError, Timestamp};
use waterclock_config::PolicyConfig;
use waterclock_redis::RedisStore;

use super::Replayed;
use crate::stage::{Resolved, charge, no_answer, register_variants, resolve_event};
use crate::trace::{Event, Op, Trace};
use crate::{Error, Note};

/// How long an exchange with the store may take: no client waits for a rehearsal.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long clearing may take: it scans all keys of the store.
const CLEARING: Duration = Duration::from_secs(120);

/// Replays a trace through a Redis store, under a private prefix that is cleared at the end.
///
/// Each call of `interrupt` returns a future that is ready when the user wants to stop: first to stop the trace, then
/// to stop clearing.
pub async fn through_redis<I: Future<Output = ()>>(
    url: &str,
    policy: &Arc<PolicyConfig>,
    trace: Trace,
    observe: impl FnMut(&Event<'_>, &Resolved<'_>, &Answer) -> io::Result<()>,
    interrupt: impl Fn() -> I,
) -> Result<Replayed, Error> {
    let stage = RedisStage::new(url, policy).await.map_err(|error| Error::store(url, error))?;
    let played = stage.play(EventsAhead::start(trace)?, observe, pin!(interrupt())).await;
    match (played, stage.clear(interrupt()).await) {
        (Err(error), Err(also)) => Err(error.and(also)),
        // What was decided is still reported.
        (Ok(mut played), Err(also)) => {
            played.error = Some(match played.error {
                Some(error) => error.and(also),
                None => also,
            });
            Ok(played)
        }
        (played, Ok(())) => played,
    }
}

/// A store with a private prefix.
struct RedisStage<'a> {
    url: &'a str,
    prefix: String,
    policy: Arc<PolicyConfig>,
    store: RedisStore,
    warnings: Vec<String>,
}

impl<'a> RedisStage<'a> {
    async fn new(url: &'a str, policy: &Arc<PolicyConfig>) -> Result<RedisStage<'a>, StoreError> {
        let prefix = private_prefix();
        let store = RedisStore::builder(url).prefix(&prefix).deadline(DEADLINE).start()?;
        // Such as: a server that evicts records may decide differently from memory.
        let warnings = store.probe().await?.iter().map(ToString::to_string).collect();
        store.set_policy(Policy::clone(policy.policy())).await?;
        register_variants(policy, &store).await?;
        Ok(RedisStage { url, prefix, policy: Arc::clone(policy), store, warnings })
    }

    async fn play(
        &self,
        mut ahead: EventsAhead,
        mut observe: impl FnMut(&Event<'_>, &Resolved<'_>, &Answer) -> io::Result<()>,
        mut interrupted: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Replayed, Error> {
        let mut is_empty = true;
        let error = loop {
            let mut next = Vec::with_capacity(WINDOW);
            // Between windows only: what is under way would leave records behind.
            tokio::select! {
                _ = ahead.events.recv_many(&mut next, WINDOW) => {}
                () = &mut interrupted => {
                    break Some("interrupted; the rest of the trace is not decided".into());
                }
            }
            if next.is_empty() {
                break None;
            }
            let window = Window::new(next);
            let (answers, failure) = window.decide(&self.store, &self.policy).await;
            for (event, answer) in window.events.iter().zip(answers) {
                is_empty = false;
                let resolved = resolve_event(&self.policy, event)?;
                observe(event, &resolved, &resolved.report(answer))?;
            }
            if let Some(error) = failure.map(|error| Error::store(self.url, error)).or(window.error)
            {
                break Some(error);
            }
        };
        let (notes, warnings) = (ahead.notes(error.is_none()), self.warnings.clone());
        Ok(Replayed { is_empty, error, notes, warnings })
    }

    async fn clear(&self, interrupted: impl Future<Output = ()>) -> Result<(), Error> {
        let failed = |reason| StoreError::failed(waterclock::Failure::Timeout, reason);
        let cleared = tokio::select! {
            cleared = self.store.clear() => cleared,
            () = sleep(CLEARING) => Err(failed("clearing takes too long; the store has too many keys or is too slow")),
            () = interrupted => Err(failed("interrupted")),
        };
        cleared.map_err(|error| {
            let (why, prefix) = (Error::store(self.url, error), &self.prefix);
            format!("{why}; what is left under {prefix} expires within an hour").into()
        })
    }
}

/// A prefix that no other program uses, or can guess while the trace runs.
fn private_prefix() -> String {
    let random = RandomState::new();
    format!("waterclock-replay-{:016x}{:016x}:", random.hash_one(0), random.hash_one(1))
}

/// An event, or the error that ends the trace.
type Next = Result<Event<'static>, Error>;

/// The events of a trace, read on their own thread: a trace that waits for its writer does not delay an interrupt.
struct EventsAhead {
    events: Receiver<Next>,
    reader: JoinHandle<Vec<Note>>,
}

impl EventsAhead {
    /// Starts the thread. It ends with the trace, or soon after the receiver is dropped.
    fn start(trace: Trace) -> Result<EventsAhead, Error> {
        let (sender, events) = channel(2 * WINDOW);
        let reader = thread::Builder::new()
            .spawn(move || read(trace, &sender))
            .map_err(|error| format!("cannot start a thread to read the trace: {error}"))?;
        Ok(EventsAhead { events, reader })
    }

    /// Notes about the trace, if it was read to its end.
    fn notes(self, is_read: bool) -> Vec<Note> {
        if is_read { self.reader.join().unwrap_or_default() } else { Vec::new() }
    }
}

fn read(mut trace: Trace, listener: &Sender<Next>) -> Vec<Note> {
    loop {
        let next = match trace.next_event() {
            Ok(Some(event)) => Ok(event.into_owned()),
            Ok(None) => return trace.notes(),
            Err(error) => Err(error),
        };
        let is_last = next.is_err();
        if listener.blocking_send(next).is_err() || is_last {
            return Vec::new();
        }
    }
}

/// How many events are decided at once; more do not make it faster.
const WINDOW: usize = 256;

/// A few consecutive events, decided together.
struct Window {
    events: Arc<[Event<'static>]>,
    /// What follows them, if that is an error.
    error: Option<Error>,
}

impl Window {
    fn new(next: Vec<Next>) -> Window {
        let mut error = None;
        let keep = |next: Next| next.map_err(|wrong| error = Some(wrong)).ok();
        let events = next.into_iter().filter_map(keep).collect();
        Window { events, error }
    }

    /// The answers in the order of the events, up to the first that the store failed to make.
    ///
    /// Different keys are decided at once; the events of one key wait for each other.
    async fn decide(
        &self,
        store: &RedisStore,
        policy: &Arc<PolicyConfig>,
    ) -> (Vec<Answer>, Option<StoreError>) {
        let mut under_way = JoinSet::new();
        for places in self.by_key() {
            under_way.spawn(follow(store.clone(), Arc::clone(policy), self.events.clone(), places));
        }
        let mut answers = vec![None; self.events.len()];
        let mut trouble = None;
        while let Some(done) = under_way.join_next().await {
            let (decided, failed) = done.unwrap_or_else(|gone| (Vec::new(), Some(lost(&gone))));
            decided.into_iter().for_each(|(place, answer)| answers[place] = Some(answer));
            trouble = trouble.or(failed);
        }
        (answers.into_iter().map_while(|answer| answer).collect(), trouble)
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
    policy: Arc<PolicyConfig>,
    events: Arc<[Event<'static>]>,
    places: Vec<usize>,
) -> (Vec<(usize, Answer)>, Option<StoreError>) {
    let mut decided = Vec::with_capacity(places.len());
    for place in places {
        match decide(&store, &policy, &events[place]).await {
            Ok(answer) => decided.push((place, answer)),
            Err(error) => return (decided, Some(error)),
        }
    }
    (decided, None)
}

async fn decide(
    store: &RedisStore,
    policy: &PolicyConfig,
    event: &Event<'static>,
) -> Result<Answer, StoreError> {
    let (resolved, now) = (resolve_event(policy, event)?, Timestamp::from_micros(event.t_us));
    let gives_back = event.op.gives_back();
    if !gives_back && let Some(answer) = resolved.answer() {
        return Ok(answer);
    }
    let charge = charge(policy, &resolved, event);
    if gives_back && !resolved.resolution().is_usual() {
        store.apply_at(now, event.verb(), &[charge]).await?;
        let peek = Event { op: Op::Peek, ..event.under(0).into_owned() };
        return Box::pin(decide(store, policy, &peek)).await;
    }
    let answers = store.apply_at(now, event.verb(), &[charge]).await?;
    answers.into_iter().next().ok_or_else(no_answer)
}

/// The error of a task that ended without an answer.
fn lost(gone: &tokio::task::JoinError) -> StoreError {
    StoreError::failed(waterclock::Failure::BadReply, gone)
}

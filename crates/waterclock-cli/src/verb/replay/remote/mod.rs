//! A trace through the scripts of a Redis store, in the trace's own time.

mod events;
mod window;

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use waterclock::{Store, StoreError};
use waterclock_redis::RedisStore;

use self::events::{Ahead, read_ahead};
use self::window::{WINDOW, Window};
use super::{Audience, Played};
use crate::failure::{Failure, say};
use crate::stage::Ruling;
use crate::store::{block_on, sentence};
use crate::trace::Trace;

/// How long an exchange with the store may take: nobody waits for a rehearsal but its author.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long removing the records may take: it walks through all keys of the store.
const CLEARING: Duration = Duration::from_secs(120);

pub(super) fn play(
    url: &str,
    ruling: &Arc<Ruling>,
    trace: Trace,
    audience: &mut impl Audience,
) -> Result<Played, Failure> {
    block_on(async {
        let stage = Stage::set(url, ruling).await.map_err(|error| sentence(url, &error))?;
        let played = stage.play(read_ahead(trace)?, audience).await;
        // Whatever became of the trace, nothing of it stays.
        match (played, stage.clear().await) {
            (Err(failure), Err(also)) => Err(failure.and(also)),
            // What was decided is still told.
            (Ok(played), Err(also)) => Ok(played.and(also)),
            (played, Ok(())) => played,
        }
    })?
}

/// A store with a prefix that is nobody else's.
struct Stage<'a> {
    url: &'a str,
    prefix: String,
    ruling: Arc<Ruling>,
    store: RedisStore,
}

impl<'a> Stage<'a> {
    async fn set(url: &'a str, ruling: &Arc<Ruling>) -> Result<Stage<'a>, StoreError> {
        let prefix = private_prefix();
        let builder = RedisStore::builder(url).prefix(&prefix).deadline(PATIENCE);
        let store = builder.start()?;
        // A server that may drop records may answer otherwise than memory would.
        store.probe().await?.iter().for_each(|warning| say(&format!("warning: {warning}")));
        store.set_policy(ruling.spec().built.clone()).await?;
        ruling.set_variants(&store).await?;
        Ok(Stage { url, prefix, ruling: Arc::clone(ruling), store })
    }

    async fn play(
        &self,
        mut ahead: Ahead,
        audience: &mut impl Audience,
    ) -> Result<Played, Failure> {
        let mut interrupted = pin!(interrupted());
        let mut is_empty = true;
        let complaint = loop {
            let mut next = Vec::with_capacity(WINDOW);
            // Between windows only: what is under way would leave records behind.
            tokio::select! {
                _ = ahead.events.recv_many(&mut next, WINDOW) => {}
                () = &mut interrupted => {
                    break Some("interrupted; the rest of the trace is not decided".to_owned().into());
                }
            }
            if next.is_empty() {
                break None;
            }
            let window = Window::new(next);
            let (decisions, trouble) = window.decide(&self.store, &self.ruling).await;
            for (event, decision) in window.events.iter().zip(&decisions) {
                is_empty = false;
                let turn = self.ruling.turn(event).map_err(|error| error.to_string())?;
                let decision = turn.told(&event.key, *decision);
                audience.hear(&turn, event, &decision)?;
            }
            let trouble = trouble.map(|error| sentence(self.url, &error).into());
            if let Some(failure) = trouble.or(window.complaint) {
                break Some(failure);
            }
        };
        let remarks = ahead.remarks(complaint.is_none());
        Ok(Played { is_empty, complaint, remarks })
    }

    async fn clear(&self) -> Result<(), Failure> {
        let failed = |reason| StoreError::failed(waterclock::Failure::Timeout, reason);
        let cleared = tokio::select! {
            cleared = self.store.clear() => cleared,
            () = sleep(CLEARING) => Err(failed("its keys are too many, or it is too slow")),
            () = interrupted() => Err(failed("interrupted")),
        };
        cleared.map_err(|error| {
            let why = sentence(self.url, &error);
            let prefix = &self.prefix;
            format!("{why}; what is left under {prefix} expires within an hour").into()
        })
    }
}

/// Nobody can have records under it, or guess it while the trace runs.
fn private_prefix() -> String {
    let random = RandomState::new();
    format!("waterclock-replay-{:016x}{:016x}:", random.hash_one(0), random.hash_one(1))
}

/// Ends when somebody presses Ctrl-C.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Then Ctrl-C ends the process as it always does, and the records expire.
        std::future::pending::<()>().await;
    }
}

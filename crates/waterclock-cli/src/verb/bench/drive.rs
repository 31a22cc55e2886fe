//! The connections, at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::caller::Caller;
use super::keys::Keys;
use super::load::Load;
use super::progress::Progress;
use super::report::Report;
use super::schedule::Schedule;
use super::tally::Tallies;
use crate::failure::Failure;
use crate::server::NoAnswer;

/// How long a connection that failed leaves the server alone.
const PAUSE: Duration = Duration::from_millis(50);
/// How long answers are waited for when it is over: longer than any call may take.
const GRACE: Duration = Duration::from_secs(6);

/// What the connections have in common.
struct Shared {
    load: Load,
    schedule: Schedule,
    tallies: Tallies,
    /// Whether anybody was ever answered: before that, a failure is a wrong address rather than a bad day.
    answered: AtomicBool,
}

/// Does it, and says how it went.
pub(super) async fn drive(load: Load, shows_progress: bool) -> Result<Report, Failure> {
    stay_on_this_machine(&load).await?;
    let cannot = |error| format!("signals cannot be listened for: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let callers = tokio::select! {
        callers = connect(&load) => callers,
        _ = interrupt.recv() => return Err("interrupted before all connections were made".to_owned().into()),
    };
    let callers = match callers {
        Ok(callers) => callers,
        Err(no_answer) => return Err(load.server.complaint(&no_answer).await.into()),
    };
    let shared = Arc::new(Shared {
        schedule: Schedule::new(load.rate, load.duration, load.requests),
        tallies: Tallies::new(load.connections),
        answered: AtomicBool::new(false),
        load,
    });
    let pacer = Arc::clone(&shared);
    thread::spawn(move || pacer.schedule.pace());
    let mut workers = JoinSet::new();
    for (connection, caller) in (0..).zip(callers) {
        workers.spawn(Arc::clone(&shared).work(connection, caller));
    }
    let progress = Progress::start(shows_progress, &shared.load);
    let (outcome, is_interrupted) = shared.watch(&mut workers, &progress, &mut interrupt).await;
    let elapsed = shared.schedule.elapsed();
    shared.schedule.stop();
    progress.end();
    if let Err(no_answer) = outcome {
        return Err(shared.load.server.complaint(&no_answer).await.into());
    }
    let tally = shared.tallies.sum().ok_or_else(|| "there is no room to count".to_owned())?;
    let unsent = shared.schedule.unsent(elapsed);
    Ok(Report::new(&shared.load, &tally, elapsed, unsent, is_interrupted))
}

async fn connect(load: &Load) -> Result<Vec<Caller>, NoAnswer> {
    let mut callers = Vec::new();
    for _ in 0..load.connections {
        callers.push(Caller::connect(load).await?);
    }
    Ok(callers)
}

/// Other machines are loaded only on purpose. What is surely here is loopback, however it is written.
async fn stay_on_this_machine(load: &Load) -> Result<(), Failure> {
    let address = &load.server.address;
    let found = lookup_host(address.authority()).await;
    let cannot = |error| format!("{address}: {}", NoAnswer::Unreachable(error));
    let is_here = found.map_err(cannot)?.all(|found| found.ip().to_canonical().is_loopback());
    if is_here || load.is_remote {
        return Ok(());
    }
    let sentence = "is not a loopback address; say --remote to load it all the same";
    Err(format!("{address} {sentence}").into())
}

impl Shared {
    /// Waits until all connections are done, or somebody has had enough. The second word of a person is the
    /// last: then nothing is waited for.
    async fn watch(
        &self,
        workers: &mut JoinSet<Result<(), NoAnswer>>,
        progress: &Progress,
        interrupt: &mut Signal,
    ) -> (Result<(), NoAnswer>, bool) {
        let mut is_interrupted = false;
        loop {
            tokio::select! {
                done = workers.join_next() => match done {
                    None => return (Ok(()), is_interrupted),
                    Some(Ok(Err(no_answer))) => return (Err(no_answer), is_interrupted),
                    Some(_) => {}
                },
                _ = interrupt.recv() => {
                    if is_interrupted {
                        return (Ok(()), true);
                    }
                    is_interrupted = true;
                    self.schedule.stop();
                }
                () = sleep(Progress::EVERY) => {
                    progress.show(self.schedule.elapsed(), self.tallies.counts());
                }
            }
        }
    }

    /// One connection: asks whenever it is its turn, and dials again when it was cut off.
    async fn work(self: Arc<Shared>, connection: u64, caller: Caller) -> Result<(), NoAnswer> {
        let mut keys = Keys::new(self.load.keys, connection);
        let mut caller = Some(caller);
        while let Some(turn) = self.schedule.next(self.load.requests_at_once()).await {
            let requests = turn.many;
            let checks =
                if self.load.requests_at_once() == 1 { self.load.at_once } else { requests };
            let called = timeout(GRACE, self.call(&mut caller, &mut keys, checks)).await;
            match called.unwrap_or(Err(NoAnswer::Late(GRACE))) {
                Ok(answers) => {
                    let latencies = self.schedule.latencies(&turn);
                    self.answered.store(true, Ordering::Relaxed);
                    self.tallies.answered(connection, answers, latencies);
                }
                Err(no_answer) if self.may_go_on(&no_answer) => {
                    self.tallies.failed(connection, requests, checks, no_answer.to_string());
                    // Who says that it cannot decide is still there, and is asked again at once.
                    if !matches!(no_answer, NoAnswer::Refused { .. }) {
                        caller = None;
                        sleep(PAUSE).await;
                    }
                }
                Err(no_answer) => return Err(no_answer),
            }
        }
        Ok(())
    }

    async fn call(
        &self,
        caller: &mut Option<Caller>,
        keys: &mut Keys,
        checks: u64,
    ) -> Result<super::caller::Answers, NoAnswer> {
        let caller = match caller {
            Some(caller) => caller,
            None => caller.insert(Caller::connect(&self.load).await?),
        };
        caller.call(keys, checks).await
    }

    /// Whether this is a failure to count, rather than a question that will never be answered.
    fn may_go_on(&self, no_answer: &NoAnswer) -> bool {
        match no_answer {
            NoAnswer::Broken(_) | NoAnswer::Late(_) => self.answered.load(Ordering::Relaxed),
            _ => no_answer.may_pass(),
        }
    }
}

//! The connections at work, and a progress bar.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::net::lookup_host;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::caller::{Answers, Caller};
use super::load::{Keys, Load};
use super::report::Report;
use super::schedule::Schedule;
use super::tally::Tallies;
use crate::output::Failure;
use crate::server::NoAnswer;

/// How long a connection waits after a failure.
const PAUSE: Duration = Duration::from_millis(50);
/// How long to wait for answers at the end: longer than any call may take.
const GRACE: Duration = Duration::from_secs(6);

/// What the connections share.
struct Shared {
    load: Load,
    schedule: Schedule,
    tallies: Tallies,
    /// Whether there was ever an answer: before that, a failure means a wrong address.
    answered: AtomicBool,
}

/// Applies the load and reports on it.
pub(super) async fn drive(mut load: Load, shows_progress: bool) -> Result<Report, Failure> {
    refuse_remote(&load).await?;
    load.choose_policy().await?;
    let cannot = |error| format!("cannot listen for signals: {error}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let callers = tokio::select! {
        callers = connect(&load) => callers,
        _ = interrupt.recv() => return Err("interrupted before all connections were made".into()),
    };
    let callers = match callers {
        Ok(callers) => callers,
        Err(no_answer) => return Err(load.server.explain(&no_answer).await.into()),
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
        return Err(shared.load.server.explain(&no_answer).await.into());
    }
    let tally = shared.tallies.sum().ok_or_else(|| "the latencies cannot be counted".to_owned())?;
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

/// Refuses addresses that are not loopback, unless `--remote` is given.
async fn refuse_remote(load: &Load) -> Result<(), Failure> {
    let address = &load.server.address;
    let found = lookup_host(address.authority()).await;
    let cannot = |error| format!("{address}: {}", NoAnswer::Unreachable(error));
    let is_here = found.map_err(cannot)?.all(|found| found.ip().to_canonical().is_loopback());
    if is_here || load.is_remote {
        return Ok(());
    }
    let sentence = "is not a loopback address; use --remote if you may load it";
    Err(format!("{address} {sentence}").into())
}

impl Shared {
    /// Waits until all connections are done or the user interrupts. After the second interrupt it does not wait for
    /// answers.
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

    /// One connection: sends requests when they are due, and reconnects after a failure.
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
                    // A server that refuses to decide is still there: no new connection.
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
    ) -> Result<Answers, NoAnswer> {
        let caller = match caller {
            Some(caller) => caller,
            None => caller.insert(Caller::connect(&self.load).await?),
        };
        caller.call(keys, checks).await
    }

    /// Whether this failure is counted; other failures end the load.
    fn may_go_on(&self, no_answer: &NoAnswer) -> bool {
        match no_answer {
            NoAnswer::Broken(_) | NoAnswer::Late(_) => self.answered.load(Ordering::Relaxed),
            _ => no_answer.may_pass(),
        }
    }
}

/// A bar that fills with time, or with requests if their number is given.
struct Progress {
    bar: ProgressBar,
    counts_requests: bool,
}

impl Progress {
    /// How often it moves.
    const EVERY: Duration = Duration::from_millis(200);

    fn start(is_shown: bool, load: &Load) -> Progress {
        let length = load.requests.unwrap_or_else(|| millis(load.duration));
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
            bar.set_style(style);
        }
        Progress { bar, counts_requests: load.requests.is_some() }
    }

    fn show(&self, elapsed: Duration, counts: [u64; 4]) {
        let [requests, allowed, refused, errors] = counts;
        let per_second = u128::from(requests) * 1_000 / elapsed.as_millis().max(1);
        self.bar.set_position(if self.counts_requests { requests } else { millis(elapsed) });
        self.bar.set_message(format!(
            "{per_second} requests/s, {allowed} allowed, {refused} refused, {errors} errors"
        ));
    }

    /// Removes the bar: the report follows.
    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

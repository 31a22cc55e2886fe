//! Callers that ask a limiter in this process, all over the same connection.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;

use super::Error;
use super::contestant::Limiter;
use crate::machine::cpu_time;

/// Which keys are asked about.
#[derive(Clone, Debug)]
pub enum Keys {
    /// So many, in an order drawn beforehand.
    Drawn(u64, Arc<[String]>),
    /// Each only once.
    New(Arc<AtomicU64>),
}

/// 15 bytes, and no colon: not every contestant takes one.
pub fn key(n: u64) -> String {
    format!("user-{n:010}")
}

impl Keys {
    pub fn drawn(keys: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(keys);
        Self::Drawn(keys, (0..1 << 16).map(|_| key(random.u64(0..keys))).collect())
    }

    fn nth(&self, n: usize) -> Cow<'_, str> {
        match self {
            Self::Drawn(_, keys) => Cow::Borrowed(&keys[n % keys.len()]),
            Self::New(next) => Cow::Owned(key(next.fetch_add(1, Ordering::Relaxed))),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Load {
    pub keys: Keys,
    pub callers: usize,
    pub time: Duration,
    /// One call in so many is timed: reading the clock would count where Redis is not asked.
    pub timed: usize,
}

/// What the callers saw.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Seen {
    pub decisions: u64,
    pub admitted: u64,
    pub seconds: f64,
    /// Seconds of processor time the client took.
    pub cpu: f64,
    /// Microseconds.
    pub p50: f64,
    pub p99: f64,
}

/// Asks for so long. The runtime has this one thread, so its processor time is the client's.
pub async fn drive<L: Limiter>(limiter: &Arc<L>, load: &Load) -> Result<Seen, Error> {
    let (start, cpu) = (Instant::now(), cpu_time());
    let end = start + load.time;
    let mut callers = JoinSet::new();
    for n in 0..load.callers {
        // Each starts elsewhere in the same sequence.
        callers.spawn(call(limiter.clone(), load.keys.clone(), n * 1_021, load.timed, end));
    }
    let (mut decisions, mut admitted, mut nanos) = (0, 0, Vec::new());
    while let Some(call) = callers.join_next().await {
        let call = call??;
        decisions += call.decisions;
        admitted += call.admitted;
        nanos.extend(call.nanos);
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
    limiter.verify()?;
    nanos.sort_unstable();
    let micros = |part: f64| f64::from(nanos[((nanos.len() - 1) as f64 * part) as usize]) / 1e3;
    Ok(Seen { decisions, admitted, seconds, cpu, p50: micros(0.5), p99: micros(0.99) })
}

#[derive(Default)]
struct Call {
    decisions: u64,
    admitted: u64,
    nanos: Vec<u32>,
}

async fn call<L: Limiter>(
    limiter: Arc<L>,
    keys: Keys,
    mut n: usize,
    timed: usize,
    end: Instant,
) -> Result<Call, Error> {
    let mut seen = Call::default();
    loop {
        for left in (0..timed).rev() {
            let start = (left == 0).then(Instant::now);
            seen.admitted += u64::from(limiter.check(&keys.nth(n)).await?);
            seen.decisions += 1;
            n += 1;
            // A limiter that answers at once must let the others and the connection run, too.
            consume_budget().await;
            let Some(start) = start else { continue };
            let now = Instant::now();
            seen.nanos.push((now - start).as_nanos().try_into().unwrap_or(u32::MAX));
            if now >= end {
                return Ok(seen);
            }
        }
    }
}

/// Asks about each of these keys once, `callers` at a time; how many passed?
pub async fn once<L: Limiter>(
    limiter: &Arc<L>,
    keys: impl Iterator<Item = String>,
    callers: usize,
) -> Result<u64, Error> {
    let (mut calls, mut admitted) = (JoinSet::new(), 0);
    for key in keys {
        if calls.len() >= callers
            && let Some(passed) = calls.join_next().await
        {
            admitted += u64::from(passed??);
        }
        let limiter = limiter.clone();
        calls.spawn(async move { limiter.check(&key).await });
    }
    while let Some(passed) = calls.join_next().await {
        admitted += u64::from(passed??);
    }
    Ok(admitted)
}

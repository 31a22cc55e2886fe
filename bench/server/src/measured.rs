//! What one load on one server told.

use std::time::{Duration, Instant};

use waterclock_bench::machine::cpu_time;
use waterclock_bench::measure::median;

use crate::Error;
use crate::process::Server;
use crate::spent::Spent;

/// What a client saw: one entry for every request, or for every pipeline of them.
#[derive(Debug, Default)]
pub struct Seen {
    pub nanos: Vec<u32>,
}

impl Seen {
    /// Notes an answer and says when it came, which is when the next question is asked.
    pub fn answered(&mut self, asked: Instant) -> Instant {
        let now = Instant::now();
        self.nanos.push((now - asked).as_nanos().try_into().unwrap_or(u32::MAX));
        now
    }
}

/// One measurement, or the medians of several; per question where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Thousands of questions per second.
    pub rate: f64,
    /// Microseconds until an exchange is answered.
    pub p50: f64,
    pub p99: f64,
    /// Microseconds of the server's processor time, and how much of the time that is.
    pub cpu: f64,
    pub busy: f64,
    /// Microseconds of the client's processor time.
    pub client: f64,
    /// How much of the time the client or the server was kept from its core by others.
    pub disturbed: f64,
}

/// Runs a load and watches what it costs. An exchange is `each` questions.
pub async fn measure(
    server: &Server,
    each: usize,
    load: impl Future<Output = Result<Vec<Seen>, Error>>,
) -> Result<Measured, Error> {
    let itself = std::process::id();
    let (start, cpu) = (Instant::now(), cpu_time());
    let (here, there) = (Spent::by(itself)?, Spent::by(server.id())?);
    let seen = load.await?;
    let (there, here) = (Spent::by(server.id())? - there, Spent::by(itself)? - here);
    let seconds = start.elapsed().as_secs_f64();
    let client = cpu_time() - cpu;
    let mut nanos: Vec<u32> = seen.into_iter().flat_map(|seen| seen.nanos).collect();
    nanos.sort_unstable();
    let last = nanos.len().checked_sub(1).ok_or("not one answer came")?;
    let micros = |part: f64| f64::from(nanos[(last as f64 * part) as usize]) / 1e3;
    let questions = (nanos.len() * each) as f64;
    Ok(Measured {
        rate: questions / seconds / 1e3,
        p50: micros(0.5),
        p99: micros(0.99),
        cpu: there.ran * 1e6 / questions,
        busy: there.ran / seconds,
        client: client.as_secs_f64() * 1e6 / questions,
        disturbed: here.waited.max(there.waited) / seconds,
    })
}

/// How long to ask before anything is measured.
pub fn warm_up(time: Duration) -> Duration {
    time / 4
}

/// `None` of none.
pub fn medians(all: &[Measured]) -> Option<Measured> {
    let of = |field: fn(&Measured) -> f64| median(all.iter().map(field).collect());
    (!all.is_empty()).then(|| Measured {
        rate: of(|m| m.rate),
        p50: of(|m| m.p50),
        p99: of(|m| m.p99),
        cpu: of(|m| m.cpu),
        busy: of(|m| m.busy),
        client: of(|m| m.client),
        disturbed: of(|m| m.disturbed),
    })
}

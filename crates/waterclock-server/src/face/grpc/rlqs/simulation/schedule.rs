//! What happens to a world: its policy, bursts, direct callers, lost streams, restarts and planted bugs.

use std::time::Duration;

use waterclock::{FixedWindow, Gcra, LeakyBucket, Limit, Verb};

use super::super::pool::ShareId;
use super::oracle::Oracle;
use super::world::{PROXIES, STEP, World};

/// How long a server may take to notice that a proxy has gone: a ping every 20 s, answered within 10 s.
const LONGEST_UNNOTICED: Duration = Duration::from_secs(30);

/// What a careless server would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// Gives the units of a lost stream back at once.
    DeadSharesGivenBack,
    /// Divides the same units twice.
    CountedTwice,
    /// Sends leases that were not charged while the store is asked.
    ChargedOnReports,
    /// Renews too late, so that assignments lapse.
    NotRenewed,
    /// Charges the first lease of a key, and fills it again with each renewal.
    Refilled,
    /// Gives back what a report says was spent, too.
    SpentGivenBack,
}

impl Bug {
    pub(super) const ALL: [Bug; 6] = [
        Bug::DeadSharesGivenBack,
        Bug::CountedTwice,
        Bug::ChargedOnReports,
        Bug::NotRenewed,
        Bug::Refilled,
        Bug::SpentGivenBack,
    ];
}

/// A policy, and what it admits at most.
pub(super) fn random_policy(random: &mut fastrand::Rng) -> (Limit, Oracle) {
    let (limit, seconds) = (random.u64(1..=60), [1, 5, 20, 60, 3_600][random.usize(..5)]);
    let per = Duration::from_secs(seconds);
    let capacity = random.u64(1..=2 * limit);
    match random.u8(..4) {
        0 => {
            let bucket = LeakyBucket::new(capacity.max(limit), limit, per).unwrap();
            // A drip of all that is due comes at once: one more of them in any span.
            (bucket.into(), Oracle::bucket(limit, per, capacity.max(limit) + limit))
        }
        1 => {
            let per = Duration::from_secs(30);
            let window = FixedWindow::new(limit, per).unwrap();
            (window.into(), Oracle::window(usize::try_from(limit).unwrap(), per))
        }
        _ => {
            let gcra = Gcra::new(limit, per).unwrap().with_capacity(capacity);
            (gcra.into(), Oracle::bucket(limit, per, capacity))
        }
    }
}

impl World {
    /// Bursts, direct callers, lost streams and restarts.
    pub(super) fn trouble(&mut self) -> Result<(), String> {
        let a_second = 1.0 / STEP.as_secs_f64();
        let now_and_then =
            |random: &mut fastrand::Rng, seconds: f64| random.f64() * seconds * a_second < 1.0;
        for at in 0..PROXIES {
            if now_and_then(&mut self.random, 6.0) {
                let rate = [0.0, 0.0, 1.0, 7.0, 60.0][self.random.usize(..5)];
                self.demand[at] = (rate, 0.0);
            }
            if now_and_then(&mut self.random, 10.0) {
                self.demand[at].1 += f64::from(self.random.u32(1..120));
            }
            if !self.is_calm && now_and_then(&mut self.random, 40.0) {
                self.lose_stream(at);
            }
            if !self.is_calm && now_and_then(&mut self.random, 300.0) {
                self.crash(at);
            }
        }
        if now_and_then(&mut self.random, 4.0) {
            for _ in 0..self.random.u32(1..20) {
                if self.charge(Verb::Check, 1).0 {
                    self.direct += 1;
                    self.oracle.admit(self.now)?;
                }
            }
        }
        if !self.is_calm && now_and_then(&mut self.random, 60.0) {
            self.restarts += 1;
            let at = self.random.usize(..self.servers.len());
            let streams = std::mem::take(&mut self.servers[at].streams);
            for (_, proxy) in streams {
                self.proxies[proxy].stream = None;
            }
            // What it held is gone with it; what was charged stays charged.
            self.servers[at] = self.fresh_server();
        }
        Ok(())
    }

    /// A proxy starts again, without its buckets and what it held.
    fn crash(&mut self, at: usize) {
        self.lose_stream(at);
        self.crashes += 1;
        self.proxies[at].start_again();
    }

    /// Servers notice that streams are gone.
    pub(super) fn close_streams(&mut self) {
        let now = self.now;
        let (due, later) = self.closing.drain(..).partition(|(at, _)| *at <= now);
        self.closing = later;
        let due: Vec<(Duration, u64)> = due;
        for (_, stream) in due {
            for server in &mut self.servers {
                server.streams.retain(|(open, _)| *open != stream);
                server.pool.leave(ShareId(stream));
            }
        }
    }

    fn lose_stream(&mut self, proxy: usize) {
        let Some(stream) = self.proxies[proxy].stream.take() else { return };
        self.streams_lost += 1;
        // A server that is told nothing goes on for a while.
        let unnoticed = if self.random.bool() { Duration::ZERO } else { LONGEST_UNNOTICED };
        self.closing.push((self.now + unnoticed * self.random.u32(0..=16) / 16, stream));
        if self.bug == Some(Bug::DeadSharesGivenBack) {
            let held = self.held.iter().find(|(other, _)| *other == stream);
            if let Some((_, units)) = held.copied() {
                self.charge(Verb::Refund, units);
            }
        }
    }
}

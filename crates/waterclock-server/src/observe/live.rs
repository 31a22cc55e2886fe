//! The live feed for dashboards: counters that only grow, so that two readings give the rates in between.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use waterclock::{Clock, Failure};

use super::{Face, TopRefused, Totals};
use crate::engine::{PolicyCount, StoreNodes};
use crate::reload::ReloadStatus;
use crate::server::Server;

/// What `/v1/live` shows.
#[derive(Serialize)]
pub(crate) struct Live {
    /// When, in microseconds since the Unix epoch.
    at_us: u64,
    uptime_us: u64,
    version: &'static str,
    phase: &'static str,
    store: LiveStore,
    config: ReloadStatus,
    connections: BTreeMap<&'static str, i64>,
    totals: Totals,
    policies: Vec<PolicyCount>,
    refused: TopRefused,
}

#[derive(Serialize)]
struct LiveStore {
    name: &'static str,
    degraded: bool,
    /// Since when, in microseconds since the Unix epoch.
    degraded_since_us: Option<u64>,
    /// How many servers share it.
    nodes: StoreNodes,
    /// Failures so far, by kind.
    errors: BTreeMap<&'static str, u64>,
    /// Charges of keys that found no place of their own.
    overflowed: u64,
}

impl Live {
    pub(crate) fn of(server: &Server) -> Live {
        let (engine, metrics) = (&server.engine, server.engine.metrics());
        // Policies before the sum of them: so the sum is never less.
        let policies = engine.policy_counts();
        // One reading: then the start is the same in every event.
        let now = metrics.clock().now();
        let connected = |face: Face| (face.name(), metrics.connections(face).get());
        Live {
            at_us: now.as_nanos() / 1_000,
            uptime_us: u64::try_from(server.uptime_at(now).as_micros()).unwrap_or(u64::MAX),
            version: env!("CARGO_PKG_VERSION"),
            phase: server.phase().borrow().name(),
            store: LiveStore::of(server),
            config: server.reloads().status(),
            connections: Face::ALL.map(connected).into(),
            totals: metrics.totals(),
            policies,
            refused: engine.top_refused(None),
        }
    }
}

impl LiveStore {
    fn of(server: &Server) -> LiveStore {
        let engine = &server.engine;
        let mut errors: BTreeMap<_, _> = Failure::ALL.map(|kind| (kind.name(), 0)).into();
        errors.extend(engine.store_failures().map(|(kind, total)| (kind.name(), total)));
        let degraded = engine.is_degraded();
        let since = server.outage().since().filter(|_| degraded);
        LiveStore {
            name: engine.store_name(),
            degraded,
            degraded_since_us: since.map(|since| since.as_nanos() / 1_000),
            nodes: engine.store_nodes(),
            errors,
            overflowed: engine.overflowed(),
        }
    }
}

/// The clock of all live feeds, and their last event.
pub(crate) struct Ticks {
    every: Duration,
    last: Mutex<Option<(u64, Bytes)>>,
}

impl Ticks {
    pub(crate) fn new(every: Duration) -> Ticks {
        Ticks { every: every.max(Duration::from_micros(1)), last: Mutex::default() }
    }

    /// The current tick.
    pub(crate) fn at(&self, uptime: Duration) -> u64 {
        u64::try_from(uptime.as_nanos() / self.every.as_nanos()).unwrap_or(u64::MAX)
    }

    /// How long until a tick begins.
    pub(crate) fn until(&self, tick: u64, uptime: Duration) -> Duration {
        let begins = self.every.as_nanos().saturating_mul(tick.into());
        let wait = begins.saturating_sub(uptime.as_nanos());
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// The event of a tick, made by its first reader; or of a later tick, if that was made already. Returns its tick.
    pub(crate) fn event(
        &self,
        tick: u64,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<(u64, Bytes)> {
        let mut last = self.last.lock();
        if last.as_ref().is_none_or(|(made, _)| *made < tick) {
            *last = Some((tick, make()?));
        }
        last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_for_all_readers() {
        let ticks = Ticks::new(Duration::from_millis(100));
        let never = || -> Option<Bytes> { panic!("it was made already") };
        let (three, four) = ((3, Bytes::from("three")), (4, Bytes::from("four")));
        assert_eq!(ticks.event(3, || Some("three".into())), Some(three.clone()));
        assert_eq!(ticks.event(3, never), Some(three));
        assert_eq!(ticks.event(4, || Some("four".into())), Some(four.clone()));
        assert_eq!(ticks.event(3, never), Some(four));
    }

    #[test]
    fn a_tick_has_begun_when_it_was_waited_for() {
        let ticks = Ticks::new(Duration::from_millis(100));
        let uptime = Duration::from_millis(250);
        assert_eq!(ticks.at(uptime), 2);
        assert_eq!(ticks.until(3, uptime), Duration::from_millis(50));
        assert_eq!(ticks.at(uptime + ticks.until(3, uptime)), 3);
        assert_eq!(ticks.until(1, uptime), Duration::ZERO);
    }
}

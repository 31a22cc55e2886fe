//! What is going on just now, for dashboards: counters that only grow, so that whoever reads them twice
//! knows the rates in between.

use std::collections::BTreeMap;

use serde::Serialize;
use waterclock::{Clock, Failure};

use super::{Face, TopRefused, Totals};
use crate::engine::PolicyCount;
use crate::reload::ReloadStatus;
use crate::server::Server;

/// As `/v1/live` tells it.
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
    policies: Vec<LivePolicy>,
    refused: TopRefused,
}

#[derive(Serialize)]
struct LiveStore {
    name: &'static str,
    degraded: bool,
    /// Failures so far, by kind.
    errors: BTreeMap<&'static str, u64>,
    /// Charges of keys that found no place of their own.
    overflowed: u64,
}

#[derive(Serialize)]
struct LivePolicy {
    name: String,
    totals: Totals,
    keys: usize,
    reservations: usize,
    limits: Vec<LiveLimit>,
}

#[derive(Serialize)]
struct LiveLimit {
    name: String,
    /// The most a fresh key can admit at once; null where there is no such number.
    limit: Option<u64>,
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
            policies: policies.into_iter().map(LivePolicy::from).collect(),
            refused: engine.refused().top(),
        }
    }
}

impl LiveStore {
    fn of(server: &Server) -> LiveStore {
        let place = server.engine.store();
        let mut errors: BTreeMap<_, _> = Failure::ALL.map(|kind| (kind.name(), 0)).into();
        errors.extend(place.failures().map(|(kind, total)| (kind.name(), total)));
        LiveStore {
            name: place.name(),
            degraded: place.is_degraded(),
            errors,
            overflowed: place.overflowed(),
        }
    }
}

impl From<PolicyCount> for LivePolicy {
    fn from(count: PolicyCount) -> LivePolicy {
        let PolicyCount { name, totals, keys, reservations, limits } = count;
        let limits = limits.into_iter().map(|(name, limit)| LiveLimit { name, limit }).collect();
        LivePolicy { name, totals, keys, reservations, limits }
    }
}

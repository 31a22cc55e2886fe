//! The goals of the project, one list for all families.
//!
//! "× peer" is how many times as fast as the peer, default against default, in one run.

use std::borrow::Cow;

#[derive(Clone, Debug)]
pub struct Goal {
    /// The measurement it belongs to, as in `README.md`.
    pub id: &'static str,
    pub what: Cow<'static, str>,
    pub bound: Bound,
}

/// What a measured number must be.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    const fn new(id: &'static str, what: &'static str, bound: Bound) -> Self {
        Self { id, what: Cow::Borrowed(what), bound }
    }

    /// The same goal for one of several subjects.
    pub fn of(self, subject: &str) -> Self {
        Self { what: format!("{subject}, {}", self.what).into(), ..self }
    }
}

impl Bound {
    /// `None` if it was not measured.
    pub fn met_by(self, measured: f64) -> Option<bool> {
        (!measured.is_nan()).then_some(match self {
            Self::AtLeast(least) => measured >= least,
            Self::AtMost(most) => measured <= most,
        })
    }

    pub fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
        }
    }
}

pub mod in_process {
    use super::Bound::{AtLeast, AtMost};
    use super::Goal;

    pub const ONE: Goal = Goal::new("M1", "one limiter, × governor", AtLeast(1.0));
    pub const ONE_INSTANT: Goal =
        Goal::new("M1", "one limiter, both with Instant, × governor", AtLeast(1.0));
    pub const ONE_CACHED: Goal =
        Goal::new("M1", "one limiter, cached clock, × governor", AtLeast(3.0));

    pub const STRINGS_10K: Goal = Goal::new("M2", "10,000 String keys, × governor", AtLeast(2.5));
    pub const STRINGS_10K_INSTANT: Goal =
        Goal::new("M2", "10,000 String keys, both with Instant, × governor", AtLeast(2.5));
    pub const STRINGS_10K_PAIR: Goal =
        Goal::new("M2", "10,000 String keys, 2 threads, × governor", AtLeast(4.0));
    pub const STRINGS_1M: Goal = Goal::new("M3", "1,000,000 String keys, × governor", AtLeast(5.0));
    pub const STRINGS_1M_BATCH: Goal =
        Goal::new("M3", "1,000,000 String keys, batch of 16, × governor", AtLeast(15.0));
    pub const STRINGS_10M: Goal =
        Goal::new("M4", "10,000,000 String keys, × governor", AtLeast(6.0));
    pub const STRINGS_10M_BATCH: Goal =
        Goal::new("M4", "10,000,000 String keys, batch of 16, × governor", AtLeast(15.0));
    pub const NUMBERS_10M: Goal = Goal::new("M4", "10,000,000 u64 keys, × governor", AtLeast(2.5));
    pub const NUMBERS_10M_BATCH: Goal =
        Goal::new("M4", "10,000,000 u64 keys, batch of 16, × governor", AtLeast(6.0));
    pub const SCALING: Goal = Goal::new("M7", "2 threads, × 1 thread", AtLeast(1.8));

    pub const BYTES: Goal = Goal::new("M5", "bytes per key at 10,000,000 keys", AtMost(24.0));
    pub const BYTES_GROWING: Goal = Goal::new("M5", "bytes per key while growing", AtMost(36.0));
    pub const PAUSE_GROWING: Goal =
        Goal::new("M6", "worst decision while growing, µs", AtMost(50.0));
    pub const PAUSE_EXPIRING: Goal =
        Goal::new("M6", "worst decision while expiring, µs", AtMost(50.0));
    pub const FLOOD_MEMORY: Goal = Goal::new("flood", "MiB", AtMost(128.0));
    pub const FLOOD_CHANGED: Goal = Goal::new("flood", "existing keys changed", AtMost(0.0));
    pub const FLOOD_PAUSE: Goal = Goal::new("flood", "worst decision, µs", AtMost(50.0));

    /// The time of another algorithm or policy.
    pub fn algorithm(name: &str) -> Goal {
        let most = match name {
            "rolling-window" => 3.0,
            "quota" | "leaky-bucket, drip 2" => 1.6,
            _ => 2.0,
        };
        Goal::new("M8", "time of gcra", AtMost(most)).of(name)
    }
}

pub mod redis {
    use super::Bound::{AtLeast, AtMost};
    use super::Goal;

    pub const LUA: Goal = Goal::new("R1", "64 callers, decisions/s × plain Lua", AtLeast(2.2));
    pub const CELL: Goal = Goal::new("R1", "64 callers, decisions/s × redis-cell", AtLeast(1.3));
    pub const LIMITADOR: Goal =
        Goal::new("R1", "64 callers, decisions/s × limitador", AtLeast(4.0));
    pub const FLEXIBLE: Goal =
        Goal::new("R1", "64 callers, decisions/s × rate-limiter-flexible", AtLeast(4.5));
    pub const TAIL: Goal = Goal::new("R1", "64 callers, p99, plain Lua is 1", AtMost(1.0));
    pub const CPU: Goal = Goal::new("R2", "Redis CPU per decision, plain Lua is 1", AtMost(0.45));
    pub const BYTES: Goal = Goal::new("R2", "bytes per key", AtMost(80.0));
    pub const LONE: Goal = Goal::new("R3", "1 caller, p50, GET is 1", AtMost(1.25));
    pub const TRIPS: Goal = Goal::new("R3", "1 caller, round trips", AtMost(1.0));
    pub const EXACT: Goal = Goal::new("exact", "passed of 200 where 10 may", AtMost(10.0));
    pub const HOT_CPU: Goal = Goal::new("R4", "leased hot keys, client CPU ns", AtMost(60.0));
    pub const HOT: Goal =
        Goal::new("R4", "leased hot keys, decisions/s × trypema hybrid", AtLeast(2.0));
    pub const COLD_TRIPS: Goal =
        Goal::new("R4", "leased cold keys, 1 caller, round trips", AtMost(1.0));
}

pub mod server {
    use super::Bound::{AtLeast, AtMost};
    use super::Goal;

    pub const GET: Goal = Goal::new("S1", "pipelines of 16, commands/s × Redis GET", AtLeast(1.15));
    pub const CELL: Goal =
        Goal::new("S1", "pipelines of 16, commands/s × redis-cell", AtLeast(4.7));
    pub const RESP_THROTTLECRAB: Goal =
        Goal::new("S1", "pipelines of 16, commands/s × throttlecrab", AtLeast(30.0));
    pub const LONGER_PIPELINE: Goal =
        Goal::new("S1", "commands/s × those in the next shorter pipeline, at least", AtLeast(1.0));
    pub const CHECK_NGINX: Goal =
        Goal::new("S2", "/v1/check, requests/s × nginx limit_req", AtLeast(0.85));
    pub const CHECK_THROTTLECRAB: Goal =
        Goal::new("S2", "/v1/check, requests/s × throttlecrab", AtLeast(1.25));
    pub const CHECK_LIMITADOR: Goal =
        Goal::new("S2", "/v1/check, requests/s × limitador", AtLeast(2.5));
    pub const AUTHORIZE_NGINX: Goal =
        Goal::new("S2", "/v1/authorize, requests/s × nginx limit_req", AtLeast(0.92));
    pub const BATCH: Goal =
        Goal::new("S2", "64 checks in a request, decisions/s × one at a time", AtLeast(12.0));
    pub const ECHO: Goal = Goal::new("S3", "Envoy RLS, calls/s × tonic echo", AtLeast(0.93));
    pub const GRPC_LIMITADOR: Goal =
        Goal::new("S3", "Envoy RLS, calls/s × limitador", AtLeast(1.1));
    pub const LAYER: Goal =
        Goal::new("S4", "axum behind the layer, requests/s × bare", AtLeast(0.96));
    pub const LAYER_CPU: Goal =
        Goal::new("S4", "CPU µs that the layer adds to a request", AtMost(0.5));
    pub const LAYER_CALL: Goal =
        Goal::new("S4", "CPU µs that the layer adds to a call without sockets", AtMost(0.5));
}

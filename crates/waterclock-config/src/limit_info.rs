//! A decision as Sharkey's `LimitInfo`, for servers that are asked instead of its rate limiter.

use std::time::Duration;

use serde::Serialize;
use waterclock::{Decision, MAX_UNITS, Policy};

/// Its fields and its rounding: up, to milliseconds and from there to seconds.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitInfo {
    blocked: bool,
    /// The largest safe integer where nothing limits.
    remaining: u64,
    /// Until the next call can pass: 0 if that is now, `null` if that is never.
    reset_sec: Option<u64>,
    reset_ms: Option<u64>,
    full_reset_sec: u64,
    full_reset_ms: u64,
}

impl LimitInfo {
    pub(crate) fn new(policy: &Policy, decision: &Decision) -> LimitInfo {
        let blocked = policy.refuses(decision);
        let remaining = match decision.remaining() {
            Some(remaining) => remaining,
            // A limit that counts no units.
            None if blocked => 0,
            None => MAX_UNITS,
        };
        let reset = match (blocked, remaining) {
            (true, _) => decision.retry_after(),
            (false, 0) => Some(decision.next_unit().unwrap_or_default()),
            (false, _) => Some(Duration::ZERO),
        };
        let (reset_ms, full_reset_ms) = (reset.map(millis), millis(decision.reset_after()));
        LimitInfo {
            blocked,
            remaining,
            reset_sec: reset_ms.map(seconds),
            reset_ms,
            full_reset_sec: seconds(full_reset_ms),
            full_reset_ms,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn seconds(millis: u64) -> u64 {
    millis.div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use waterclock::store::now_or_never;
    use waterclock::{LegacyLimit, Limit, ManualClock, MemoryStore, MinInterval, Store};

    use super::*;

    fn info(blocked: bool, remaining: u64, reset_ms: u64, full_reset_ms: u64) -> Value {
        json!({
            "blocked": blocked, "remaining": remaining, "resetSec": reset_ms.div_ceil(1_000),
            "resetMs": reset_ms, "fullResetSec": full_reset_ms.div_ceil(1_000),
            "fullResetMs": full_reset_ms,
        })
    }

    struct Site {
        policy: Policy,
        store: MemoryStore<ManualClock>,
        clock: ManualClock,
    }

    impl Site {
        fn new(limits: Vec<Limit>) -> Site {
            let clock = ManualClock::default();
            let store = MemoryStore::new(10, clock.clone());
            let policy = Policy::new("p", limits).unwrap();
            now_or_never(store.set_policy(policy.clone())).unwrap().unwrap();
            Site { policy, store, clock }
        }

        fn call(&self, cost: u64) -> Value {
            let decision = now_or_never(self.store.check_n("p", b"k", cost)).unwrap().unwrap();
            json!(LimitInfo::new(&self.policy, &decision))
        }
    }

    /// As the original answers: the time until the *next* call, admitted or not.
    #[test]
    fn of_a_bucket() {
        let old = LegacyLimit::new().with_max(2).with_duration(Duration::from_millis(3_000));
        let site = Site::new(vec![old.limit().unwrap().unwrap()]);
        assert_eq!(site.call(1), info(false, 1, 0, 1_500));
        assert_eq!(site.call(1), info(false, 0, 1_500, 3_000));
        site.clock.advance(Duration::from_micros(499_500));
        assert_eq!(site.call(1), info(true, 0, 1_001, 2_501));
        site.clock.advance(Duration::from_secs(9));
        assert_eq!(site.call(1), info(false, 1, 0, 1_500));
    }

    #[test]
    fn where_nothing_limits_or_nothing_is_counted() {
        let free = Site::new(Vec::new());
        assert_eq!(free.call(7), info(false, 9_007_199_254_740_991, 0, 0));
        let apart = Site::new(vec![MinInterval::new(Duration::from_secs(2)).unwrap().into()]);
        assert_eq!(apart.call(1)["blocked"], false);
        assert_eq!(apart.call(1), info(true, 0, 2_000, 2_000));
        let never = Site::new(vec![Limit::per_second(1).into()]).call(2);
        assert_eq!((&never["blocked"], &never["resetMs"]), (&json!(true), &Value::Null));
    }
}

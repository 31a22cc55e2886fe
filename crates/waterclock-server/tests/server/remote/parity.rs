//! The same questions to a server and to a store in this process.

use std::time::Duration;

use waterclock::store::Persist as _;
use waterclock::{Answer, Charge, Cost, MemoryStore, Outcome, Policy, Source, Store, Verb};

use super::{patient, url_of};
use crate::at_work::AtWork;

/// Windows so long that no edge and no refill falls into the test; one policy of every kind.
const POLICIES: &str = r#"
[policies.bucket]
limits = [
    { name = "burst", algorithm = "gcra", limit = 3, per = "10d", capacity = 6 },
    { name = "long", algorithm = "fixed-window", limit = 9, per = "100d" },
]

[policies.part]
mode = "nary"
limits = [{ algorithm = "leaky-bucket", capacity = 7, drip = 2, every = "10d" }]

[policies.harsh]
mode = "uniform"
limits = [{ algorithm = "rolling-window", limit = 8, per = "30d" }]

[policies.watched]
limits = [
    { name = "live", algorithm = "sliding-window", limit = 9, per = "100d" },
    { name = "next", algorithm = "quota", limit = 4, per = "100d", shadow = true },
]

[policies.quiet]
shadow = true
limits = [{ algorithm = "gcra", limit = 2, per = "10d" }]

[policies.spaced]
limits = [{ algorithm = "gcra", limit = 20, per = "100d", min_interval = "1d", unit = "tokens" }]

[policies.apart]
limits = [{ algorithm = "min-interval", every = "10d" }]

[policies.yearly]
limits = [{ algorithm = "fixed-window", limit = 5, per = "year", align = "calendar", timezone = "Europe/Berlin" }]

[policies.debtor]
limits = [{ algorithm = "gcra", limit = 4, per = "10d", overdraft = true }]

[policies.slots]
limits = [{ algorithm = "even-slots", limit = 4, per = "100d" }]

[policies.breaker]
limits = [{ algorithm = "error-rate", threshold = "33.3%", per = "10d", min_samples = 5, cool_down = "1d" }]
"#;

const NAMES: [&str; 11] = [
    "bucket", "part", "harsh", "watched", "quiet", "spaced", "apart", "yearly", "debtor", "slots",
    "breaker",
];

const KEYS: [&[u8]; 6] =
    [b"alice", "Zoë 🦀".as_bytes(), b"\"quoted\"\n\\", b"\xff\xfe", b"bytes:fffe", b""];

/// Both clocks run while the test does.
const CLOSE: Duration = Duration::from_secs(60);

fn close(a: Option<Duration>, b: Option<Duration>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.abs_diff(b) < CLOSE,
        (a, b) => a == b,
    }
}

fn assert_same(there: &Answer, here: &Answer, what: &str) {
    let told = |answer: &Answer| {
        let decision = &answer.decision;
        let limits: Vec<_> =
            answer.limits.iter().map(|own| (own.allowed, own.limit, own.remaining)).collect();
        let outcome = (decision.is_allowed(), decision.granted(), decision.refused_by());
        let numbers = (decision.limit(), decision.remaining(), decision.shadow_refused_by());
        (outcome, numbers, limits, answer.source, decision.counter())
    };
    assert_eq!(told(there), told(here), "{what}");
    let waits = |answer: &Answer| {
        let decision = &answer.decision;
        let mut waits =
            vec![decision.retry_after(), decision.next_unit(), Some(decision.reset_after())];
        waits.push(answer.next_same());
        for own in &answer.limits {
            waits.extend([own.retry_after, own.next_unit, Some(own.reset_after)]);
        }
        waits
    };
    for (a, b) in waits(there).into_iter().zip(waits(here)) {
        assert!(close(a, b), "{what}: {a:?} there and {b:?} here");
    }
}

#[tokio::test]
async fn a_server_decides_as_a_store_in_this_process() {
    let server = AtWork::serving(POLICIES).await;
    let there = patient(&url_of(&server)).connect().await.unwrap();
    let here = MemoryStore::default();
    for name in NAMES {
        let policy = there.policy(name).unwrap_or_else(|| panic!("{name}"));
        here.set_policy(policy).await.unwrap();
    }
    let mut random = fastrand::Rng::with_seed(7);
    let (mut refused, mut never, mut partial, mut shadows, mut several) = (0, 0, 0, 0, 0);
    for step in 0..1_500 {
        let verbs = [Verb::Check, Verb::Check, Verb::Check, Verb::Peek, Verb::Refund, Verb::Debit];
        let verb = match random.u8(..20) {
            0 => Verb::Report(Outcome::Ok),
            1 => Verb::Report(Outcome::Error),
            _ => *random.choice(verbs.iter()).unwrap(),
        };
        // Others have nothing to do with how something ended, and say so.
        let breaks = matches!(verb, Verb::Report(_));
        let charges: Vec<Charge<'_>> = (0..random.usize(1..=3))
            .map(|_| {
                Charge::new(
                    if breaks { "breaker" } else { NAMES[random.usize(..NAMES.len())] },
                    KEYS[random.usize(..KEYS.len())],
                    Cost::from(if random.u8(..20) == 0 { 1_000 } else { random.u64(0..=3) }),
                )
            })
            .collect();
        let (a, b) = (there.apply(verb, &charges).await, here.apply(verb, &charges).await);
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.len(), b.len());
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            assert_same(a, b, &format!("step {step}: {verb:?} {charges:?} [{i}]"));
            refused += u32::from(!b.decision.is_allowed());
            never += u32::from(b.decision.retry_after().is_none());
            partial += u32::from(!b.decision.is_allowed() && b.decision.granted() > 0);
            shadows += u32::from(!b.decision.shadow_refused_by().is_empty());
            assert_eq!(a.source, Source::Authoritative);
        }
        several += u32::from(charges.len() > 1 && b.iter().any(|b| !b.decision.is_allowed()));
    }
    let seen = [refused, never, partial, shadows, several];
    assert!(seen.iter().all(|seen| *seen > 5), "{seen:?}");
    assert!(!there.is_degraded());
}

#[tokio::test]
async fn policies_are_heard_as_they_are_written() {
    let server = AtWork::serving(POLICIES).await;
    let store = patient(&url_of(&server)).connect().await.unwrap();
    let plan = server.running.server().engine.plan();
    for name in NAMES {
        let heard: Policy = store.policy(name).unwrap();
        let served = plan.find(name).unwrap().scope().policy();
        assert_eq!(heard.definition(), served.definition(), "{name}");
        assert_eq!(heard.mode(), served.mode(), "{name}");
        assert_eq!(heard.is_shadow(), served.is_shadow(), "{name}");
        let more = |policy: &Policy| -> Vec<(String, bool)> {
            policy
                .limits()
                .iter()
                .map(|limit| (limit.unit().to_owned(), limit.is_shadow()))
                .collect()
        };
        assert_eq!(more(&heard), more(served), "{name}");
    }
    assert!(store.policy("unknown").is_none());
}

//! Snapshots: words from bytes, and changes to what a store wrote. All is restored, or nothing.

use std::sync::LazyLock;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::Corpus;
use waterclock::store::now_or_never;
use waterclock::{
    FixedWindow, Gcra, KeyOverride, LeakyBucket, Limit, ManualClock, MemoryStore, Override, Policy,
    RestoreError, RollingWindow, SlidingWindow, Store, Timestamp,
};

const NOW: Timestamp = Timestamp::from_nanos(1_794_000_000_123_456_789);
/// Magic, version, when, and what the hash needs.
const HEAD: usize = 3 + 5;

static POLICIES: LazyLock<[Policy; 7]> = LazyLock::new(policies);
static WRITTEN: LazyLock<Vec<u64>> = LazyLock::new(written);

pub fn run(data: &[u8]) -> Corpus {
    match words(&mut Unstructured::new(data), &WRITTEN) {
        Ok(words) => restore(&words),
        Err(_) => return Corpus::Reject,
    }
    Corpus::Keep
}

fn policies() -> [Policy; 7] {
    let minute = Duration::from_secs(60);
    let named = |name: &str, limit: Limit| Policy::new(name, [limit]).expect("valid");
    let leaky = LeakyBucket::new(7, 2, minute).expect("valid");
    let rolling = RollingWindow::new(7, minute).expect("valid");
    let spaced = Limit::from(Limit::per_minute(7)).with_min_interval(minute / 30).expect("valid");
    [
        named("gcra", Limit::per_minute(6).into()),
        named("debt", Gcra::new(7, minute).expect("valid").with_overdraft(true).into()),
        named("leaky", leaky.into()),
        named("fixed", FixedWindow::new(7, minute).expect("valid").into()),
        named("sliding", SlidingWindow::new(7, minute).expect("valid").into()),
        named("rolling", rolling.clone().into()),
        Policy::new("several", [spaced, leaky.into(), rolling.into()]).expect("valid"),
    ]
}

fn store() -> (MemoryStore<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    clock.set(NOW);
    let store = MemoryStore::new(8, clock.clone());
    for policy in &*POLICIES {
        now_or_never(store.set_policy(policy.clone())).expect("at once").expect("valid");
    }
    (store, clock)
}

/// The words of a snapshot of a store that was used.
fn written() -> Vec<u64> {
    let (store, clock) = store();
    for policy in &*POLICIES {
        for key in 0..3_u8 {
            clock.advance(Duration::from_millis(100));
            let check = now_or_never(store.check_n(policy.name(), &[key], 2));
            _ = check.expect("at once").expect("a known policy");
        }
    }
    let change = KeyOverride::new(*b"own", Override::Limits([Limit::per_minute(2).into()].into()));
    now_or_never(store.set_override("gcra", &change)).expect("at once").expect("set");
    _ = now_or_never(store.check_n("gcra", b"own", 1)).expect("at once").expect("known");
    now_or_never(store.keep_policy("kept", "limits = []")).expect("at once").expect("kept");
    let mut bytes = Vec::new();
    store.snapshot(&mut bytes).expect("written");
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

/// The hash's head stays, or nothing could be found; the sum is made right.
fn words(from: &mut Unstructured<'_>, written: &[u64]) -> Result<Vec<u64>> {
    let end = written.len() - 1;
    let mut words = written[..end].to_vec();
    if from.ratio(1, 4)? {
        words.truncate(HEAD);
        while !from.is_empty() {
            words.push(word(from)?);
        }
    } else {
        for _ in 0..from.int_in_range(1..=4)? {
            let at = from.int_in_range(HEAD - 6..=words.len().max(HEAD) - 1)?;
            if (3..HEAD).contains(&at) || at >= words.len() {
                continue;
            }
            match from.int_in_range(0..=5)? {
                0 => words.insert(at, word(from)?),
                1 if at >= HEAD => _ = words.remove(at),
                2 if at >= HEAD => words.truncate(at),
                3 => words[at] ^= 1 << from.int_in_range(0..=63)?,
                4 => words[at] = words[at].wrapping_add_signed(from.int_in_range(-2..=2)?),
                _ => words[at] = word(from)?,
            }
        }
    }
    let add = |sum: u64, word: &u64| {
        let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    };
    words.push(words.iter().fold(0, add));
    Ok(words)
}

fn word(from: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match from.int_in_range(0..=4)? {
        0 | 1 => from.int_in_range(0..=9)?,
        2 => {
            NOW.as_nanos().wrapping_add_signed(from.int_in_range(-90_000_000_000..=90_000_000_000)?)
        }
        3 => *from.choose(&[u64::MAX, 1 << 63, 1 << 62, 1 << 53, u64::MAX >> 1])?,
        _ => from.arbitrary()?,
    })
}

fn restore(words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let (store, clock) = store();
    match store.restore(&mut &bytes[..]) {
        Err(error) => {
            assert!(matches!(error, RestoreError::Damaged | RestoreError::Version(_)), "{error}");
            assert_eq!((store.len(), store.override_count()), (0, 0), "nothing is restored");
        }
        Ok(restored) => {
            // What was restored can be written and restored once more.
            let mut again = Vec::new();
            store.snapshot(&mut again).expect("written");
            let (other, _) = self::store();
            let twice = other.restore(&mut &again[..]).expect("our own");
            assert!(twice.keys <= restored.keys, "{twice:?} of {restored:?}");
        }
    }
    for policy in &*POLICIES {
        for key in [&[0][..], b"own", b"new"] {
            clock.advance(Duration::from_millis(1));
            let checked = now_or_never(store.check_n(policy.name(), key, 1)).expect("at once");
            let decision = checked.expect("a known policy");
            let (remaining, limit) = (decision.remaining(), decision.limit());
            assert!(limit.is_none() || remaining <= limit, "{decision:?}");
        }
    }
}

//! Random policies, with the header fields of each limit worked out from the numbers they
//! were made of.

use std::time::Duration;

use fastrand::Rng;
use waterclock::{
    EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, MinInterval, Mode, Policy, Quota,
    RollingWindow, SlidingWindow,
};

pub(crate) struct Case {
    pub(crate) policy: Policy,
    /// In policy order, without shadows and without those that have no number.
    pub(crate) expected: Vec<Expected>,
    /// Whether a limit closes again by itself, so that a wait rounded up may miss the opening.
    pub(crate) recurs: bool,
}

pub(crate) struct Expected {
    /// The limit's place in the policy.
    pub(crate) at: usize,
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) quota: u64,
    pub(crate) window: Option<u64>,
}

/// A limit's quota, and its window as a fraction of nanoseconds; none for limits without a number.
type Numbers = Option<(u64, u128, u128)>;

pub(crate) fn case(rng: &mut Rng) -> Case {
    let policy_name = name(rng);
    let unit = if rng.bool() { "requests".to_owned() } else { name(rng) };
    let uniform = rng.u8(..5) == 0;
    let mut expected = Vec::new();
    let mut limits = Vec::new();
    let mut recurs = false;
    for at in 0..rng.usize(0..6) {
        let kind = if uniform { rng.u8(2..5) } else { rng.u8(..8) };
        let (limit, numbers) = limit(rng, kind);
        // The position makes names distinct, as they must be.
        let (limit_name, shadow) = (format!("{}{at}", name(rng)), rng.u8(..5) == 0);
        let limit = limit.with_name(&limit_name).with_unit(&unit).with_shadow(shadow);
        let gap = Duration::from_millis(rng.u64(1..3_000));
        let limit =
            if rng.u8(..6) == 0 { limit.with_min_interval(gap).expect("valid") } else { limit };
        limits.push(limit);
        recurs |= (5..=6).contains(&kind) && !shadow;
        if let (Some((quota, nanos, parts)), false) = (numbers, shadow) {
            let second = parts * 1_000_000_000;
            let window =
                (nanos % second == 0).then(|| u64::try_from(nanos / second).expect("fits"));
            let name = format!("{policy_name}.{limit_name}");
            expected.push(Expected { at, name, unit: unit.clone(), quota, window });
        }
    }
    let mode = match rng.bool() {
        _ if uniform => Mode::CountRefusals,
        true => Mode::Binary,
        false => Mode::Partial,
    };
    let policy = Policy::new(&policy_name, limits).expect("valid").with_mode(mode).expect("valid");
    let shadow = rng.u8(..10) == 0;
    Case { policy: policy.with_shadow(shadow), expected, recurs }
}

fn limit(rng: &mut Rng, kind: u8) -> (Limit, Numbers) {
    let (units, per) = (rng.u64(1..40), period(rng));
    let windowed = Some((units, per.as_nanos(), 1));
    match kind {
        0 => {
            let capacity = rng.u64(1..60);
            let overdraft = rng.u8(..4) == 0;
            let gcra = Gcra::new(units, per)
                .expect("valid")
                .with_capacity(capacity)
                .with_overdraft(overdraft);
            (gcra.into(), Some((capacity, u128::from(capacity) * per.as_nanos(), units.into())))
        }
        1 => {
            let drip = rng.u64(1..5);
            let drips = units / drip + u64::from(units % drip > 0);
            let bucket = LeakyBucket::new(units, drip, per).expect("valid");
            (bucket.into(), Some((units, u128::from(drips) * per.as_nanos(), 1)))
        }
        2 if rng.u8(..4) == 0 => {
            let (units, per) = (waterclock::MAX_UNITS - rng.u64(..9), Duration::from_secs(60));
            (FixedWindow::new(units, per).expect("valid").into(), Some((units, per.as_nanos(), 1)))
        }
        2 if rng.bool() => (FixedWindow::new(units, per).expect("valid").into(), windowed),
        2 => (FixedWindow::aligned(units, per).expect("valid").into(), windowed),
        3 => (SlidingWindow::new(units, per).expect("valid").into(), windowed),
        4 if rng.bool() => (RollingWindow::new(units, per).expect("valid").into(), windowed),
        4 => (RollingWindow::bucketed(units, per, 10).expect("valid").into(), windowed),
        5 => (Quota::new(units, per).expect("valid").into(), windowed),
        6 => (EvenSlots::new(units, per).expect("valid").into(), None),
        _ => (MinInterval::new(per).expect("valid").into(), None),
    }
}

fn period(rng: &mut Rng) -> Duration {
    match rng.u8(..4) {
        0 => Duration::from_millis(rng.u64(1..20_000)),
        1 => Duration::from_nanos(rng.u64(1_000..10_000_000_000)),
        _ => Duration::from_secs(rng.u64(1..100_000)),
    }
}

/// Awkward names.
fn name(rng: &mut Rng) -> String {
    let any = |rng: &mut Rng| match rng.u8(..8) {
        0 => *rng.choice(&['"', '\\', ',', ';', '=', ' ', '%', '.']).expect("some"),
        1 => rng.char(..),
        2 => char::from(rng.u8(..)),
        _ => rng.alphanumeric(),
    };
    (0..rng.usize(1..12)).map(|_| any(rng)).collect()
}

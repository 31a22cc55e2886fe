//! What is read from Redis: records, what stands before them, reservations, definitions, replies.
//!
//! The first byte says which, and for records the policy; all of it may be another program's.

use std::time::Duration;

use libfuzzer_sys::Corpus;
use waterclock::{
    Concurrency, Cost, ErrorRate, EvenSlots, FixedWindow, Gcra, LeakyBucket, Limit, MinInterval,
    Policy, Quota, RollingWindow, SlidingWindow, Timestamp, Verb,
};
use waterclock_redis::fuzzing::{Records, cluster_slots, note, prefix, reply};

use crate::planted::planted;

const NOW: Timestamp = Timestamp::from_nanos(1_794_000_000_123_456_000);

thread_local! {
    static RECORDS: Vec<Records> = records();
}

fn records() -> Vec<Records> {
    let minute = Duration::from_secs(60);
    let gcra = Gcra::new(7, minute).expect("valid");
    let spaced = Limit::from(Limit::per_minute(7)).with_min_interval(minute / 30).expect("valid");
    let rolling = RollingWindow::new(7, minute).expect("valid");
    let limits: Vec<Vec<Limit>> = vec![
        vec![Limit::per_minute(6).into()],
        vec![gcra.into()],
        vec![gcra.with_overdraft(true).into()],
        vec![LeakyBucket::new(7, 2, minute).expect("valid").into()],
        vec![FixedWindow::new(7, minute).expect("valid").into()],
        vec![SlidingWindow::new(7, minute).expect("valid").into()],
        vec![rolling.clone().into()],
        vec![RollingWindow::bucketed(7, minute, 6).expect("valid").into()],
        vec![Quota::new(7, minute).expect("valid").into()],
        vec![EvenSlots::new(7, minute).expect("valid").into()],
        vec![MinInterval::new(minute).expect("valid").into()],
        vec![Concurrency::new(7, minute).expect("valid").into()],
        vec![ErrorRate::new(5_000, minute, 3, minute).expect("valid").into()],
        vec![spaced, Limit::from(rolling).with_shadow(true), gcra.into()],
    ];
    let policy = |limits: Vec<Limit>| {
        let named =
            limits.into_iter().enumerate().map(|(i, limit)| limit.with_name(&format!("l{i}")));
        Records::new(Policy::new("p", named).expect("valid")).expect("the scripts can")
    };
    limits.into_iter().map(policy).collect()
}

pub fn run(data: &[u8]) -> Corpus {
    let [kind, which, bytes @ ..] = data else { return Corpus::Reject };
    RECORDS.with(|records| {
        let of = &records[usize::from(*which) % records.len()];
        let other = &records[usize::from(*which / 16) % records.len()];
        match kind % 8 {
            0..=2 => record(of, other, bytes, kind % 8 == 0, *kind),
            3 => before(bytes),
            4 => reservation(bytes),
            5 => definition(of, bytes),
            6 => {
                if let Some(list) = of.due(bytes, other) {
                    assert!(of.due(bytes, of).is_some() && list.is_empty() == bytes.is_empty());
                }
            }
            _ => slots(bytes),
        }
    });
    Corpus::Keep
}

fn record(of: &Records, other: &Records, bytes: &[u8], is_reply: bool, kind: u8) {
    let verb = [Verb::Peek, Verb::Check, Verb::Debit, Verb::Refund][usize::from(kind / 8) % 4];
    let cost = Cost::from(u64::from(kind / 32));
    let Some((answer, written)) = of.answer(bytes, is_reply, NOW, (verb, &cost)) else { return };
    let (remaining, limit) = (answer.decision.remaining(), answer.decision.limit());
    assert!(limit.is_none() || remaining <= limit, "{answer:?}");
    // What we write, we read; it means the same.
    let Some(written) = written else { return };
    let peek = |record: &[u8]| of.answer(record, false, NOW, (Verb::Peek, &Cost::from(1)));
    let (first, again) = peek(&written).expect("our own record");
    let mut again = again.expect("not fresh");
    if planted("a_unit_is_lost_when_written_again") && again.len() > 16 {
        let last = again.last_mut().expect("long");
        *last = last.saturating_sub(1);
    }
    let (second, _) = peek(&again).expect("our own record");
    assert_eq!(first, second);
    if let Some(carried) = of.carried(&written, other, NOW) {
        let read = other.answer(&carried, false, NOW, (Verb::Peek, &Cost::from(1)));
        assert!(read.is_some(), "{}: {carried:?}", other.text());
    }
}

fn before(bytes: &[u8]) {
    let Some((written, rest)) = prefix(bytes) else { return };
    assert!(rest <= bytes.len());
    let (again, _) = prefix(&written).expect("our own");
    assert_eq!(written, again);
}

fn reservation(bytes: &[u8]) {
    let Some(written) = note(bytes) else { return };
    assert_eq!(note(&written).as_deref(), Some(&*written));
}

fn definition(of: &Records, bytes: &[u8]) {
    let Some(registered) = of.definition(bytes) else { return };
    let text = registered.text();
    let again = of.definition(format!("1\n{text}").as_bytes()).expect("our own");
    assert_eq!(again.text(), text);
}

fn slots(bytes: &[u8]) {
    let Some(reply) = reply(bytes) else { return };
    if let Some((first, last, owner)) = cluster_slots("127.0.0.1:6379", &reply) {
        assert!(first <= last && last < 16_384 && owner.contains(':'));
    }
}

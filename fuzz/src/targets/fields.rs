//! Our own header fields: what we write, our client reads as it was meant.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use http::{HeaderMap, StatusCode};
use libfuzzer_sys::Corpus;
use waterclock::store::now_or_never;
use waterclock::{Charge, Jitter, Limit, ManualClock, MemoryStore, Policy, Store, Timestamp, Verb};
use waterclock_conformance::policy;
use waterclock_conformance::reference::Verb as SpecVerb;
use waterclock_http::{HeaderFields, HeaderStyle, StyledAnswer, advised_wait};

use crate::policies::case;

const STYLES: [HeaderStyle; 6] = [
    HeaderStyle::Ietf,
    HeaderStyle::Draft10,
    HeaderStyle::Draft03,
    HeaderStyle::Legacy,
    HeaderStyle::GitHub,
    HeaderStyle::RetryAfter,
];

pub fn run(data: &[u8]) -> Corpus {
    match answers(&mut Unstructured::new(data)) {
        Ok(()) => Corpus::Keep,
        Err(_) => Corpus::Reject,
    }
}

fn answers(from: &mut Unstructured<'_>) -> Result<()> {
    let name: String = from.arbitrary()?;
    let own_name: String = from.arbitrary()?;
    let unit = (*from.choose(&["requests", "tokens", "kilo \"bytes\""])?).to_owned();
    let case = case(from, 1)?;
    let limits = policy(&case.spec).limits().to_vec();
    let limits = limits.into_iter().enumerate().map(|(i, limit): (usize, Limit)| {
        let name = if i == 0 { own_name.clone() } else { format!("{own_name}{i}") };
        limit.with_name(&name).with_unit(&unit)
    });
    let Ok(policy) = Policy::new("policy", limits) else { return Ok(()) };
    let clock = ManualClock::default();
    let store = MemoryStore::new(4, clock.clone());
    if now_or_never(store.set_policy(policy.clone())).expect("at once").is_err() {
        return Ok(());
    }
    for event in &case.trace {
        clock.set(Timestamp::from_nanos(event.at_ns));
        let verb = if event.verb == SpecVerb::Check { Verb::Check } else { Verb::Peek };
        let cost = policy.requests(event.cost);
        let charge = Charge::new("policy", b"k", cost);
        let answers = now_or_never(store.apply(verb, &[charge])).expect("at once");
        let Ok([answer]) = answers.as_deref() else { continue };
        for style in STYLES {
            let styled =
                StyledAnswer { style, name: &name, policy: &policy, answer, jitter: Jitter::NONE };
            let fields = HeaderFields::for_check([styled]);
            for (name, value) in fields.iter() {
                let is_printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
                assert!(is_printable && !value.is_empty(), "{name}: {value:?}");
            }
            let refused = policy.refuses(&answer.decision);
            let given = fields.get("retry-after").map(|text| text.parse::<u64>().expect("seconds"));
            let count = fields.iter().len();
            let mut headers = HeaderMap::new();
            fields.write_to(&mut headers);
            assert_eq!(headers.len(), count, "each name once, and each value valid");
            let read = advised_wait(StatusCode::TOO_MANY_REQUESTS, &headers, Timestamp::ZERO);
            if let Some(seconds) = given {
                assert!(refused && seconds > 0);
                assert_eq!(read, Some(Duration::from_secs(seconds)));
                let wait = answer.decision.retry_after().expect("a wait");
                assert!(Duration::from_secs(seconds) >= wait, "too early: {seconds} s, {wait:?}");
            } else {
                assert!(!refused || answer.decision.retry_after().is_none() || policy.is_shadow());
            }
        }
    }
    Ok(())
}

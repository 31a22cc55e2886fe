//! The core against the naive model, and the memory store against the core, under a policy and calls from bytes.

use arbitrary::Unstructured;
use libfuzzer_sys::Corpus;
use waterclock_conformance::property::all;
use waterclock_conformance::reference::Verb;
use waterclock_conformance::{Core, Memory, Subject};

use crate::planted::planted;
use crate::policies::case;

thread_local! {
    static PROPERTIES: Vec<waterclock_conformance::property::Property<Core>> = all();
}

pub fn run(data: &[u8]) -> Corpus {
    let mut from = Unstructured::new(data);
    let Ok(case) = case(&mut from, Core::TICK_NS) else { return Corpus::Reject };
    let mut answers = Core.run(&case.spec, &case.trace, false);
    let mut trace = case.trace.clone();
    if planted("the_store_stops_at_the_limit") {
        let debits = trace.iter_mut().filter(|event| event.verb == Verb::Debit);
        debits.for_each(|event| event.verb = Verb::Check);
    }
    assert_eq!(answers, Memory.run(&case.spec, &trace, false), "memory store, {case:#?}");
    if planted("the_third_limit_waits_too_long") {
        let third = answers.iter_mut().filter_map(|answer| answer.limits.get_mut(2));
        third.filter_map(|limit| limit.retry_after_ns.as_mut()).for_each(|wait| *wait += 1);
    }
    PROPERTIES.with(|properties| {
        // The last one is the model; the others cost as much each.
        let other = usize::try_from(case.dice).unwrap_or(0) % (properties.len() - 1);
        for property in [&properties[properties.len() - 1], &properties[other]] {
            if let Err(why) = (property.holds)(&Core, &case, &answers) {
                panic!("{}: {why}\n{case:#?}", property.name);
            }
        }
    });
    Corpus::Keep
}

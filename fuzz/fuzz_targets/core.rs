//! The core against the naive model, and the memory store against the core, under a policy and calls from bytes.
#![no_main]

use arbitrary::Unstructured;
use libfuzzer_sys::{Corpus, fuzz_target};
use waterclock_conformance::property::all;
use waterclock_conformance::{Core, Memory, Subject};
use waterclock_fuzz::policies::case;

thread_local! {
    static PROPERTIES: Vec<waterclock_conformance::property::Property<Core>> = all();
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let mut from = Unstructured::new(data);
    let Ok(case) = case(&mut from, Core::TICK_NS) else { return Corpus::Reject };
    let answers = Core.run(&case.spec, &case.trace, false);
    assert_eq!(answers, Memory.run(&case.spec, &case.trace, false), "memory store, {case:#?}");
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
});

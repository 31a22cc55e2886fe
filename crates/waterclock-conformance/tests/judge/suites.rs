//! P1–P11, P13 and the reference model, per algorithm (P12, parallel callers, is tested in the library).
//! `WATERCLOCK_CASES` sets how many traces each property gets for each kind of policy; the default is 100,000.

use waterclock_conformance::{Core, Family, Memory, Subject, judge, property};

pub(crate) fn cases() -> u64 {
    std::env::var("WATERCLOCK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000)
}

fn hold<S: Subject>(subject: &S, family: Family) {
    judge(subject, family, &property::all(), cases());
}

mod core {
    crate::each_family!(|family| super::hold(&super::Core, family); error_rate => ErrorRate);
}

mod memory {
    crate::each_family!(|family| super::hold(&super::Memory, family); error_rate => ErrorRate);
}

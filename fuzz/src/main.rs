//! All fuzz targets as one program. `FUZZ_TARGET` names the one that runs; arguments are libFuzzer's.
#![no_main]

// The translators of `waterclock import` look for it here.
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../crates/waterclock-cli/src/output.rs"]
mod output;
mod planted;
mod policies;
mod server;
mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use targets::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(|data: &[u8]| -> Corpus {
    let run = TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        targets::named(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name}: no such target"))
    });
    run(data)
});

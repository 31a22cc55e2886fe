//! Configurations of other rate limiters, in each of their formats: a configuration of ours, or an error in a sentence.
//!
//! The first byte names the format. The translators are part of a program, so their files are compiled here.
#![no_main]
#![allow(dead_code, unused_imports, reason = "the program uses all of it")]

#[path = "../../../crates/waterclock-cli/src/output.rs"]
mod output;
mod verb;

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((format, text)) = data.split_first() else { return Corpus::Reject };
    let Ok(text) = std::str::from_utf8(text) else { return Corpus::Reject };
    verb::import::check(*format, text);
    Corpus::Keep
});

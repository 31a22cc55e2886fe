//! Configurations of other rate limiters, in each of their formats: a configuration of ours, or an error in a sentence.
//!
//! The first byte names the format. The translators are part of a program, so their files are compiled here.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "the program uses all of it")]

#[path = "../../../crates/waterclock-cli/src/verb/import/envoy/mod.rs"]
mod envoy;
#[path = "../../../crates/waterclock-cli/src/verb/import/express.rs"]
mod express;
#[path = "../../../crates/waterclock-cli/src/verb/import/flexible.rs"]
mod flexible;
#[path = "../../../crates/waterclock-cli/src/verb/import/format.rs"]
mod format;
#[path = "../../../crates/waterclock-cli/src/verb/import/limitador/mod.rs"]
mod limitador;
#[path = "../../../crates/waterclock-cli/src/verb/import/misskey.rs"]
mod misskey;
#[path = "../../../crates/waterclock-cli/src/verb/import/names.rs"]
mod names;
#[path = "../../../crates/waterclock-cli/src/verb/import/notes.rs"]
mod notes;
#[path = "../../../crates/waterclock-cli/src/verb/import/options.rs"]
mod options;
#[path = "../../../crates/waterclock-cli/src/verb/import/sharkey.rs"]
mod sharkey;
#[path = "../../../crates/waterclock-cli/src/verb/import/source.rs"]
mod source;
#[path = "../../../crates/waterclock-cli/src/verb/import/toml.rs"]
mod toml;

use libfuzzer_sys::Corpus;
use waterclock_config::Config;

use self::format::Format;
use self::source::Source;

const NAME: &str = "limits.yaml";

pub fn run(data: &[u8]) -> Corpus {
    let Some((format, text)) = data.split_first() else { return Corpus::Reject };
    let Ok(text) = std::str::from_utf8(text) else { return Corpus::Reject };
    check(*format, text);
    Corpus::Keep
}

fn check(format: u8, text: &str) {
    let source = [Source { name: NAME.to_owned(), text: text.to_owned() }];
    let translated = match format % 8 {
        0 => envoy::translate(&source),
        1 => limitador::translate(&source),
        2 => sharkey::translate(&source),
        3 => misskey::translate(&source),
        4 => flexible::translate(&source),
        5 => express::translate(&source),
        6 => {
            let domains = envoy::reference_domains(&[(NAME.to_owned(), text.to_owned())]);
            assert!(domains.is_ok() || !domains.is_err_and(|error| error.to_string().is_empty()));
            return;
        }
        _ => {
            _ = Format::recognise(&source);
            return;
        }
    };
    match translated {
        Ok(translation) => {
            let toml = translation.to_toml(&[NAME]);
            let parsed = ::toml::from_str::<::toml::Table>(&toml);
            parsed.unwrap_or_else(|error| panic!("{error}\n{toml}"));
            if let Err(invalid) = Config::read("imported", &toml) {
                assert!(invalid.problems().iter().all(|problem| problem.place.is_some()));
            }
            for note in &translation.notes {
                assert!(!note.to_string().is_empty());
            }
        }
        Err(failure) => {
            let why = failure.to_string();
            assert!(!why.is_empty() && !why.contains('\n'), "{why:?}");
        }
    }
}

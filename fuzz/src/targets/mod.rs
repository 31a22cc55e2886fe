//! One file for each target. Its name is that of its folder in `corpus/`.

mod addresses;
mod advice;
mod config;
mod core;
mod expressions;
mod fields;
mod grpc;
mod http;
mod import;
mod logs;
mod redis;
mod resp;
mod resp_commands;
mod rlqs;
mod script;
mod snapshot;
mod xds;

use libfuzzer_sys::Corpus;

/// What a target does with an input.
pub type Target = fn(&[u8]) -> Corpus;

/// The target of this name.
pub fn named(name: &str) -> Option<Target> {
    Some(match name {
        "addresses" => addresses::run,
        "advice" => advice::run,
        "config" => config::run,
        "core" => self::core::run,
        "expressions" => expressions::run,
        "fields" => fields::run,
        "grpc" => grpc::run,
        "http" => self::http::run,
        "import" => import::run,
        "logs" => logs::run,
        "redis" => self::redis::run,
        "resp" => resp::run,
        "resp_commands" => resp_commands::run,
        "rlqs" => rlqs::run,
        "script" => script::run,
        "snapshot" => snapshot::run,
        "xds" => xds::run,
        _ => return None,
    })
}

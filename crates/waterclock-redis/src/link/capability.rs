//! What a server must be able to do, and its user be permitted to: asked of the server, not derived from its version.

use redis::{Cmd, Value};
use waterclock::{Failure, StoreError};

use super::LinkSettings;
use super::error::server_error;

const SCRIPT: &str = include_str!("capability.lua");

/// The command that asks.
pub(super) fn question(settings: &LinkSettings) -> Cmd {
    let prefix = &settings.prefix;
    let mut cmd = redis::cmd("EVAL");
    // The keys are only named, not used: in a cluster they may be on another node.
    cmd.arg(SCRIPT).arg(0).arg(format!("{prefix}{{0}}")).arg(format!("{prefix}:policy:0"));
    cmd.arg("EVALSHA 0 0");
    if settings.slotted {
        cmd.arg("ASKING");
    }
    if settings.replicas > 0 {
        cmd.arg("WAIT 1 1");
    }
    cmd
}

/// Fails if the server cannot decide, with the reason.
pub(super) fn judge(answer: &Value, settings: &LinkSettings) -> Result<(), StoreError> {
    match answer {
        Value::Array(values) => match &**values {
            [Value::Int(1)] => Ok(()),
            [Value::Int(1), missing @ ..] => Err(not_permitted(missing, settings)),
            _ => Err(bad_reply()),
        },
        // It can, but may not write now: every call says so itself.
        Value::ServerError(error) if matches!(error.code(), "NOREPLICAS" | "MISCONF" | "OOM") => {
            Ok(())
        }
        Value::ServerError(error) => Err(match server_error(error).into_store_error() {
            StoreError::Failed { kind: Failure::BadReply, reason, .. } => {
                let needs =
                    "the server cannot run the scripts, which need Redis or Valkey 7.0 or newer";
                StoreError::failed(Failure::Version, format!("{needs}: {reason}"))
            }
            StoreError::Failed { kind: Failure::ReadOnly, .. } => replica(),
            other => other,
        }),
        _ => Err(bad_reply()),
    }
}

pub(super) fn bad_reply() -> StoreError {
    StoreError::failed(Failure::BadReply, "unexpected reply to the first script")
}

pub(super) fn replica() -> StoreError {
    StoreError::failed(Failure::ReadOnly, "the server is a replica, not a primary")
}

fn not_permitted(missing: &[Value], settings: &LinkSettings) -> StoreError {
    let name = |value: &Value| redis::from_redis_value_ref::<String>(value).unwrap_or_default();
    let mut names: Vec<String> = missing.iter().map(name).collect();
    names.dedup();
    let (names, prefix) = (names.join(", "), &settings.prefix);
    let reason =
        format!("the user lacks permission for {names}, or for keys that begin with `{prefix}`");
    StoreError::failed(Failure::Auth, reason)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::SCRIPT;

    /// The commands that the scripts call are those that the first script asks for.
    #[test]
    fn every_command_is_asked_for() {
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/src/script");
        let mut calls = 0;
        for file in fs::read_dir(scripts).unwrap().map(|file| file.unwrap().path()) {
            // Who sets no policies at run time needs no rights for that.
            let is_optional = file.file_stem().is_some_and(|name| name == "kept");
            if is_optional || file.extension().is_none_or(|extension| extension != "lua") {
                continue;
            }
            for call in fs::read_to_string(file).unwrap().split("call('").skip(1) {
                let name = call.split('\'').next().unwrap();
                assert!(SCRIPT.contains(&format!("need('{name}'")), "{name}");
                calls += 1;
            }
        }
        assert!(calls > 10, "{calls} calls");
    }
}

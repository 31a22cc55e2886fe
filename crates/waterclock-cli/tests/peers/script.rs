//! A program that talks to the Redis face, and ends.

use std::process::Command;

/// Runs it to its end, which must be a good one. What it said.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{complained}", output.status);
    said
}

/// A script beside these tests.
pub(crate) fn path(name: &str) -> String {
    format!("{}/tests/peers/clients/{name}", env!("CARGO_MANIFEST_DIR"))
}

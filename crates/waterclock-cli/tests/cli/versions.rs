//! Versions that must agree: of the compiler and of what is released together.

use std::fs;
use std::process::Command;

use serde_json::Value;

/// `1.90` and `1.90.0` as numbers.
fn numbers(version: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        version.split('.').map(|part| part.parse().expect("a number")).collect();
    numbers.resize(3, 0);
    numbers
}

/// What our own code asks for, clippy checks.
#[test]
fn no_dependency_asks_for_a_newer_one() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--all-features"]);
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let output = cargo.output().expect("cargo runs: it started this test");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("a list");
    let version = |package: &Value| package["rust_version"].as_str().map(numbers);
    let ours = packages.iter().find(|package| package["name"] == "waterclock");
    let ours = ours.and_then(version).expect("the workspace names it");
    let newer: Vec<String> = packages
        .iter()
        .filter(|package| version(package).is_some_and(|asked| asked > ours))
        .map(|package| format!("{} asks for {}", package["id"], package["rust_version"]))
        .collect();
    assert!(packages.len() > 200 && newer.is_empty(), "{newer:#?}");
}

#[test]
fn clients_are_released_with_the_server() {
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for (file, line) in [
        ("clients/node/package.json", format!("  \"version\": \"{}\",", env!("CARGO_PKG_VERSION"))),
        ("clients/python/pyproject.toml", format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))),
    ] {
        let text = fs::read_to_string(format!("{repository}/{file}")).expect("the client is there");
        assert!(text.lines().any(|found| found == line), "{file} has no line {line}");
    }
}

//! What a forge and a container engine would run, checked by linters, because neither is here.

use std::fs;
use std::path::PathBuf;

use crate::deployed;
use crate::installed::peer;
use crate::script;

fn workflows() -> Vec<PathBuf> {
    let folder = deployed::path("../.github/workflows");
    let entries = fs::read_dir(folder).expect("the repository has workflows");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("it can be listed").path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    files
}

/// Every key and every value is one that the forge knows.
#[test]
fn workflows_have_the_shape_of_workflows() {
    let mut linter = peer("python/bin/check-jsonschema");
    script::run(linter.args(["--builtin-schema", "vendor.github-workflows"]).args(workflows()));
}

/// Pinned actions, least rights, no text of strangers in scripts.
#[test]
fn workflows_give_nothing_away() {
    let mut linter = peer("python/bin/zizmor");
    script::run(linter.args(["--offline", "--no-progress", "--quiet"]).args(workflows()));
}

#[test]
fn the_container_file_follows_good_practice() {
    script::run(peer("python/bin/hadolint").arg(deployed::path("Dockerfile")));
}

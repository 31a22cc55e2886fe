//! Where the peers are.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that `scripts/peers` put under the target folder, such as `python/bin/envoy`.
#[track_caller]
pub(crate) fn peer(path: &str) -> Command {
    Command::new(peer_path(path))
}

/// A file or folder there.
#[track_caller]
pub(crate) fn peer_path(path: &str) -> PathBuf {
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
    let path = target.join("peers").join(path);
    assert!(path.exists(), "{} is missing: run scripts/peers", path.display());
    path
}

/// A program of the system, which `scripts/peers` installed where it was missing.
#[track_caller]
pub(crate) fn program(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers where only root's PATH looks.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    Command::new(found.unwrap_or_else(|| panic!("{name} is missing: run scripts/peers")))
}

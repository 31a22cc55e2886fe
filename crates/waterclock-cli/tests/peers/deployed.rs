//! The files in `deploy/`, as users copy them.

use std::fs;
use std::path::{Path, PathBuf};

/// Where everybody listens in one test.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    /// The proxy.
    pub(crate) proxy: u16,
    /// What the proxy protects.
    pub(crate) origin: u16,
    /// Waterclock over HTTP.
    pub(crate) http: u16,
    /// Waterclock over gRPC.
    pub(crate) grpc: u16,
}

/// The text of a file in `deploy/`.
pub(crate) fn text(path: &str) -> String {
    let path = self::path(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Where a file in `deploy/` is.
pub(crate) fn path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

/// Copies a file into `folder`, with the ports of this test in place of those that the examples agree
/// on, and with nothing else changed.
pub(crate) fn copy(name: &str, folder: &Path, ports: &Ports) -> PathBuf {
    // Those that a test gets are longer, so none of them is replaced in turn.
    let agreed =
        [("8000", ports.proxy), ("3000", ports.origin), ("8080", ports.http), ("8081", ports.grpc)];
    let mut text = text(name);
    for (old, new) in agreed {
        text = text.replace(&format!(":{old}"), &format!(":{new}"));
        text = text.replace(&format!("port_value: {old}"), &format!("port_value: {new}"));
    }
    let copied = folder.join(Path::new(name).file_name().expect("it names a file"));
    fs::write(&copied, text).expect("a folder of ours");
    copied
}

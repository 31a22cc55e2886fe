//! File descriptors: every connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::debug;

/// Raises the soft limit on open files of this process to its hard limit.
///
/// Many systems start processes with 1,024, which is kept for programs that use `select`. This server does not.
pub fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        debug!("cannot raise the limit on open files: {error}");
    }
}

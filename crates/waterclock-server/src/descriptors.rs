//! File descriptors: every connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

/// Raises the soft limit on open files of this process to its hard limit.
///
/// Many systems start processes with 1,024, which is kept for programs that use `select`. This server does not.
pub fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        debug!("cannot raise the limit on open files: {error}");
    }
}

/// Descriptors for everything but connections: listeners, files, the store.
const OTHERS: usize = 64;

/// As many connections as there are descriptors for, and no more than these.
pub(crate) fn connections_within_descriptors(connections: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let possible = limit.saturating_sub(OTHERS).max(limit / 2);
    if possible < connections {
        warn!("serving at most {possible} connections, because only {limit} files can be open");
    }
    connections.min(possible)
}

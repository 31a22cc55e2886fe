//! Being told that something happened in a directory.

use std::collections::BTreeSet;
use std::path::PathBuf;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tracing::warn;

/// Watches directories, as far as the system lets it.
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Watch {
    pub(super) fn new() -> (Watch, mpsc::Receiver<()>) {
        let (tell, told) = mpsc::channel(1);
        let on_event = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !event.kind.is_access()) {
                // Told once is enough until somebody listens.
                _ = tell.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(on_event)
            .inspect_err(|error| warn!("changes of the configuration are noticed late: {error}"));
        (Watch { watcher: watcher.ok(), watched: BTreeSet::new() }, told)
    }

    /// Watches these and no others.
    ///
    /// All are watched anew: a directory that was removed and made again has the same name, and is
    /// another one.
    pub(super) fn only(&mut self, directories: BTreeSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else { return };
        for directory in &self.watched {
            // It may be gone, and with it the watch.
            _ = watcher.unwatch(directory);
        }
        for directory in &directories {
            if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
                let name = directory.display();
                warn!("changes in {name} are noticed late: {error}");
            }
        }
        self.watched = directories;
    }
}

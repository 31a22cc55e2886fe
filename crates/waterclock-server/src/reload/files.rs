//! The files a configuration is made of, and whether they have changed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;
use std::thread;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tracing::warn;
use waterclock_config::{Config, MAX_CONFIG_FILE, read_file};

/// Links to links are followed so far.
const MAX_LINKS: usize = 16;

/// The file itself, certificates, and files that hold secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files(Vec<PathBuf>);

/// Hashes of the files, because some are secret.
pub(crate) type Contents = Vec<Option<[u8; 32]>>;

impl Files {
    pub(crate) fn of(config: &Config) -> Files {
        Files(config.files())
    }

    /// Their contents. Call this before the files are parsed, so that a change in between is noticed later. Blocks, as
    /// everything does here.
    pub(crate) fn contents_before_use(&self, config: &Config) -> Contents {
        let mut contents = self.contents();
        // The file itself has been read already.
        if let Some(first) = contents.first_mut() {
            *first = config.hash;
        }
        contents
    }

    pub(crate) fn contents(&self) -> Contents {
        // Another reason why a file cannot be read is a change, too.
        let hash = |path: &PathBuf| match read_file(path, MAX_CONFIG_FILE) {
            Ok(bytes) => Some(Sha256::digest(bytes).into()),
            Err(why) => Some(Sha256::digest(format!("cannot be read: {why}")).into()),
        };
        self.0.iter().map(hash).collect()
    }

    /// The directories to watch for changes of the files.
    ///
    /// Directories are watched, not files: editors replace files, and Kubernetes swaps a link above
    /// them. So every directory counts that holds a link on the way to a file.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let mut directories = BTreeSet::new();
        for file in &self.0 {
            let mut file = file.clone();
            for _ in 0..MAX_LINKS {
                let directory = directory_of(&file);
                note_links_above(&directory, &mut directories);
                let target = std::fs::read_link(&file);
                directories.insert(directory.clone());
                let Ok(target) = target else { break };
                file = directory.join(target);
            }
        }
        directories
    }
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A directory may be a link itself, and be swapped in the directory that holds it.
fn note_links_above(directory: &Path, directories: &mut BTreeSet<PathBuf>) {
    for above in directory.ancestors().take(MAX_LINKS) {
        if above.is_symlink() {
            directories.insert(directory_of(above));
        }
    }
}

/// Watches the directories of files on a thread of its own: links and watches of a file system that hangs take forever.
pub(super) struct Watch(blocking::SyncSender<Files>);

impl Watch {
    /// Watches nothing yet. The thread ends when this is dropped.
    pub(super) fn start() -> io::Result<(Watch, mpsc::Receiver<()>)> {
        let (send, changes) = mpsc::channel(1);
        let (watch, files) = blocking::sync_channel::<Files>(1);
        let run = move || {
            let mut watched = Watched::new(send.clone());
            for files in files {
                watched.only(files.directories());
                // Changes are missed until the watches are set.
                _ = send.try_send(());
            }
        };
        thread::Builder::new().name("watch-files".to_owned()).spawn(run)?;
        Ok((Watch(watch), changes))
    }

    /// Watches these files instead, and then reports a change: there may have been one in between. While the thread
    /// hangs, changes are noticed by polling.
    pub(super) fn only(&self, files: &Files) {
        _ = self.0.try_send(files.clone());
    }
}

/// Watches directories, as far as the system lets it.
struct Watched {
    watcher: Option<RecommendedWatcher>,
    directories: BTreeSet<PathBuf>,
}

impl Watched {
    fn new(changed: mpsc::Sender<()>) -> Watched {
        let on_event = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !event.kind.is_access()) {
                // One event is enough until it is received.
                _ = changed.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(on_event).inspect_err(|error| {
            warn!("cannot watch files, so changes are noticed by polling: {error}");
        });
        Watched { watcher: watcher.ok(), directories: BTreeSet::new() }
    }

    /// Replaces the watches. All are set anew, because a directory may have been removed and created again.
    fn only(&mut self, directories: BTreeSet<PathBuf>) {
        let Some(watcher) = &mut self.watcher else { return };
        for directory in &self.directories {
            // The directory may be gone.
            _ = watcher.unwatch(directory);
        }
        for directory in &directories {
            if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
                let name = directory.display();
                warn!("cannot watch {name}, so its changes are noticed by polling: {error}");
            }
        }
        self.directories = directories;
    }
}

//! Snapshots: the memory store's state in a file between two runs.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::{debug, error, info, warn};
use waterclock::{Clock, MemoryStore};
use waterclock_config::Invalid;

use super::disk::{self, Disk};

/// The file of one server: no other server uses it at the same time.
pub(crate) struct SnapshotFile {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    /// Locked until the server stops; `None` after that. The snapshot itself cannot be locked, because each one is a new
    /// file. The mutex is held while one is written: two writers would corrupt the file.
    lock: Mutex<Option<Box<dyn Send>>>,
}

/// What is wrong with a path, as far as that is known without writing. Completes "`snapshot` …".
pub(crate) fn examine_snapshot(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(format!("{} is not a file; choose another name", path.display()));
        }
        Ok(_) => {
            let cannot_read = |error| format!("{} cannot be read: {error}", path.display());
            File::open(path).map_err(cannot_read)?;
        }
        Err(_) => {}
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = fs::read_dir(directory.unwrap_or(Path::new(".")));
    match directory {
        // One that cannot be read may still be written to.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
            Err(cannot_write(path, &error))
        }
        _ => Ok(()),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    let lock = beside(path, ".lock");
    let (path, lock) = (path.display(), lock.display());
    format!("{path}: cannot write {lock} beside it: {error}; choose another path")
}

impl SnapshotFile {
    /// Takes a path that can be written to and that no other server uses.
    pub(crate) fn open(path: &Path) -> Result<SnapshotFile, Invalid> {
        let refused = |why: String| Invalid::from(format!("`snapshot` {why}"));
        let disk = disk::of_this_thread();
        disk.examine(path).map_err(refused)?;
        let lock = disk.lock(&beside(path, ".lock"));
        let Some(lock) = lock.map_err(|error| refused(cannot_write(path, &error)))? else {
            let why = "is in use by another server; give each server its own file";
            return Err(refused(format!("{} {why}", path.display())));
        };
        Ok(SnapshotFile { path: path.to_owned(), disk, lock: Mutex::new(Some(lock)) })
    }

    /// Writes a new file and renames it over the old one: a crash loses neither. Whether that worked. Once the lock was
    /// released, the file belongs to another server, and nothing is written.
    pub(crate) fn save<C: Clock>(&self, store: &MemoryStore<C>) -> bool {
        let lock = self.lock.lock();
        lock.is_none() || self.write_and_log(store)
    }

    /// Writes the last snapshot, and lets another server use the file. Waits for one that is being written.
    pub(crate) fn save_and_release<C: Clock>(&self, store: &MemoryStore<C>) -> bool {
        let mut lock = self.lock.lock();
        let is_saved = lock.is_none() || self.write_and_log(store);
        *lock = None;
        is_saved
    }

    fn write_and_log<C: Clock>(&self, store: &MemoryStore<C>) -> bool {
        let written = self.write(store);
        match &written {
            Ok(keys) => debug!(keys, "snapshot written"),
            Err(error) => {
                error!(file = %self.path.display(), "cannot write the snapshot: {error}");
            }
        }
        written.is_ok()
    }

    fn write<C: Clock>(&self, store: &MemoryStore<C>) -> io::Result<usize> {
        let new = beside(&self.path, ".new");
        // What a crash left, or what somebody else has put there.
        match self.disk.remove(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut out = BufWriter::new(self.disk.create(&new)?);
        let saved = store.snapshot(&mut out)?;
        out.flush()?;
        out.get_mut().sync()?;
        self.disk.rename(&new, &self.path)?;
        if let Err(error) = self.disk.sync_directory_of(&self.path) {
            let file = self.path.display();
            warn!(%file, "cannot sync the directory of the snapshot; a power loss may bring back the old one: {error}");
        }
        Ok(saved.keys)
    }

    /// Restores the policies that the last run kept, which are needed before the keys. Errors are those of
    /// [`restore`](Self::restore), which logs them.
    pub(crate) fn restore_kept<C: Clock>(&self, store: &MemoryStore<C>) {
        if let Ok(mut file) = self.disk.open(&self.path) {
            _ = store.restore_kept_policies(&mut file);
        }
    }

    /// Restores the snapshot of the last run. An unreadable one is renamed and logged: a server that does not start
    /// limits nothing.
    pub(crate) fn restore<C: Clock>(&self, store: &MemoryStore<C>) {
        let path = &self.path;
        let file = match self.disk.open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                error!(file = %path.display(), "cannot read the snapshot: {error}");
                return;
            }
        };
        match store.restore(&mut BufReader::new(file)) {
            Ok(restored) => info!(
                file = %path.display(),
                keys = restored.keys,
                fresh_by_now = restored.fresh,
                of_policies_that_are_gone = restored.unknown_keys,
                "snapshot restored"
            ),
            Err(error) => {
                let aside = beside(path, ".unreadable");
                _ = self.disk.rename(path, &aside);
                error!(file = %aside.display(), "snapshot unreadable, all keys start fresh: {error}");
            }
        }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

//! The files of snapshots: the system's, or those of a simulation.
#![allow(unreachable_pub, reason = "a simulation provides its own")]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use tracing::warn;

use super::snapshot::examine_snapshot;

/// Fingerprints of keys are in it with their seed: with both, guesses can be tested.
const OWNER_ONLY: u32 = 0o600;

/// What a snapshot needs of a file system.
pub trait Disk: Send + Sync {
    /// What is wrong with a path, as far as that is known without writing. Completes "`snapshot` …".
    fn examine(&self, path: &Path) -> Result<(), String>;
    /// Locks a file until the lock is dropped. `None` if another server has it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send>>>;
    /// Opens a file to read it.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>>;
    /// Creates a file that only the server's user can read, where there is none.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Puts a file in the place of another.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes what a directory says of this file outlast a power loss.
    fn sync_directory_of(&self, path: &Path) -> io::Result<()>;
}

/// A file that is being written.
pub trait Output: Write {
    /// Makes what was written outlast a power loss.
    fn sync(&mut self) -> io::Result<()>;
}

/// The files that servers of this thread use.
pub(super) fn of_this_thread() -> Arc<dyn Disk> {
    #[cfg(feature = "simulation")]
    if let Some(disk) = crate::simulation::disk_of_this_thread() {
        return disk;
    }
    Arc::new(System)
}

/// The system's files.
struct System;

impl Disk for System {
    fn examine(&self, path: &Path) -> Result<(), String> {
        examine_snapshot(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Send>>> {
        let lock = OpenOptions::new().write(true).create(true).mode(OWNER_ONLY).open(path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Some network file systems have no locks.
            Err(TryLockError::Error(error)) => {
                warn!(file = %path.display(), "cannot lock the snapshot against a second server: {error}");
            }
        }
        Ok(Some(Box::new(lock)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        let new = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path)?;
        Ok(Box::new(new))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_directory_of(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = File::open(directory.unwrap_or(Path::new(".")));
        match directory.and_then(|directory| directory.sync_all()) {
            // One that may be written to need not be readable, and not every file system can sync directories.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied
                        | io::ErrorKind::InvalidInput
                        | io::ErrorKind::Unsupported
                ) =>
            {
                Ok(())
            }
            synced => synced,
        }
    }
}

impl Output for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

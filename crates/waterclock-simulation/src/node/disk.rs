//! A disk that keeps what was synced, and fails or ends with its machine when a plan says so.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use waterclock_server::simulation::{Disk, Output};

use super::plan::Spoilt;
use super::plant::Plant;
use super::run::{Log, Noted};

/// The file of snapshots.
const STATE: &str = "/simulated/state";

/// Clones are the same disk.
#[derive(Clone)]
pub(super) struct SimulatedDisk {
    files: Arc<Mutex<Files>>,
    log: Log,
    plant: Plant,
}

#[derive(Default)]
struct Files {
    names: BTreeMap<PathBuf, usize>,
    /// The names that outlast a power loss.
    lasting: BTreeMap<PathBuf, usize>,
    /// What was written to each, and how much of it outlasts a power loss.
    contents: Vec<(Vec<u8>, usize)>,
    is_full: bool,
    /// How many calls are left until the machine ends.
    ends_after: Option<u32>,
}

impl SimulatedDisk {
    pub(super) fn new(log: Log, plant: Plant) -> SimulatedDisk {
        SimulatedDisk { files: Arc::default(), log, plant }
    }

    pub(super) fn set_full(&self, is_full: bool) {
        self.files.lock().is_full = is_full;
    }

    /// The machine ends at the n-th call from now on.
    pub(super) fn end_after(&self, calls: Option<u32>) {
        self.files.lock().ends_after = calls;
    }

    /// What another start finds.
    pub(super) fn lose(&self, is_power_loss: bool, random: &mut fastrand::Rng) {
        let files = &mut *self.files.lock();
        files.is_full = false;
        files.ends_after = None;
        if is_power_loss {
            files.names.clone_from(&files.lasting);
            for (bytes, synced) in &mut files.contents {
                bytes.truncate(random.usize(*synced..=bytes.len()));
            }
        }
        // What was not lost by now has been synced meanwhile, or was cut off by a fault of its own.
        files.contents.iter_mut().for_each(|(bytes, synced)| *synced = bytes.len());
        files.lasting.clone_from(&files.names);
    }

    /// Spoils the snapshot. Whether there is one.
    pub(super) fn spoil(&self, how: Spoilt) -> bool {
        let files = &mut *self.files.lock();
        let Some(at) = files.names.get(Path::new(STATE)) else { return false };
        let bytes = &mut files.contents[*at].0;
        let place = |thousandths: u64| {
            usize::try_from(thousandths).unwrap_or(0) * bytes.len().saturating_sub(1) / 1_000
        };
        match how {
            Spoilt::Cut(at) => {
                let length = place(at);
                bytes.truncate(length);
            }
            Spoilt::Bit(at) => {
                let place = place(at);
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= 1 << (at % 8);
                }
            }
        }
        files.contents[*at].1 = files.contents[*at].0.len();
        true
    }

    /// The files, if the machine goes on and the disk is not full.
    fn change<T>(&self, change: impl FnOnce(&mut Files) -> io::Result<T>) -> io::Result<T> {
        let files = &mut *self.files.lock();
        match &mut files.ends_after {
            Some(0) => {
                self.log.halt();
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Some(left) => *left -= 1,
            None => {}
        }
        if files.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        change(files)
    }
}

impl Disk for SimulatedDisk {
    fn examine(&self, _: &Path) -> Result<(), String> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Option<Box<dyn Send>>> {
        Ok(Some(Box::new(())))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let files = self.files.lock();
        let at = files.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Cursor::new(files.contents[*at].0.clone())))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        self.change(|files| {
            if files.names.contains_key(path) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            files.names.insert(path.to_owned(), files.contents.len());
            files.contents.push(Default::default());
            let new = Open { disk: self.clone(), at: files.contents.len() - 1 };
            Ok(Box::new(new) as Box<dyn Output>)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|files| {
            files.names.remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|files| {
            let at = files.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            if self.plant != Plant::SnapshotIsNotPutInPlace {
                files.names.insert(to.to_owned(), at);
            }
            if to == Path::new(STATE) {
                self.log.note(Noted::InPlace);
            }
            Ok(())
        })
    }

    fn sync_directory_of(&self, _: &Path) -> io::Result<()> {
        self.change(|files| {
            if self.plant != Plant::DirectoryIsNotSynced {
                files.lasting.clone_from(&files.names);
            }
            self.log.note(Noted::Lasting);
            Ok(())
        })
    }
}

struct Open {
    disk: SimulatedDisk,
    at: usize,
}

impl Write for Open {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.change(|files| {
            files.contents[self.at].0.extend_from_slice(bytes);
            Ok(bytes.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Open {
    fn sync(&mut self) -> io::Result<()> {
        self.disk.change(|files| {
            let (bytes, synced) = &mut files.contents[self.at];
            *synced = bytes.len();
            Ok(())
        })
    }
}

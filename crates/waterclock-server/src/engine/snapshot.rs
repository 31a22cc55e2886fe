//! Snapshots: the memory store's state in a file between two runs.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tracing::{debug, error, info};
use waterclock::{Clock, MemoryStore};

static SAVING: Mutex<()> = Mutex::new(());

/// Writes a new file and renames it over the old one: a crash loses neither.
pub(crate) fn save<C: Clock>(store: &MemoryStore<C>, path: &Path) {
    // Two writers would corrupt the file.
    let _one_at_a_time = SAVING.lock();
    match write(store, path) {
        Ok(keys) => debug!(keys, "snapshot written"),
        Err(error) => error!(file = %path.display(), "cannot write the snapshot: {error}"),
    }
}

fn write<C: Clock>(store: &MemoryStore<C>, path: &Path) -> io::Result<usize> {
    let new = beside(path, ".new");
    let mut out = BufWriter::new(File::create(&new)?);
    let saved = store.snapshot(&mut out)?;
    out.flush()?;
    out.get_ref().sync_all()?;
    fs::rename(&new, path)?;
    Ok(saved.keys)
}

/// Restores the snapshot of the last run. An unreadable file is renamed and logged: a server that does not start
/// limits nothing.
pub(crate) fn restore<C: Clock>(store: &MemoryStore<C>, path: &Path) {
    let file = match File::open(path) {
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
            _ = fs::rename(path, &aside);
            error!(file = %aside.display(), "snapshot unreadable, all keys start fresh: {error}");
        }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

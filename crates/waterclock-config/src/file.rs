//! Reading files that may be anything by the time they are read: with a deadline, a bound on their size, and no pipes.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::error::cannot_read;

/// The largest configuration, in bytes.
pub const MAX_CONFIG_FILE: u64 = 16 << 20;
/// The largest file of a secret or of certificates, in bytes.
pub const MAX_SECRET_FILE: u64 = 1 << 20;

/// How long one file may take. A file system that takes longer hangs.
const DEADLINE: Duration = Duration::from_secs(5);
/// Reads that may hang at the same time. Each keeps a thread.
const MAX_HANGING: usize = 4;

/// Reads that have missed their deadline, for as long as their threads live.
static HANGING: Mutex<Vec<(PathBuf, Weak<()>)>> = Mutex::new(Vec::new());

/// Reads a regular file of at most `max_bytes`. Returns after 5 s at most, even if its file system hangs; the thread that
/// hangs does not keep the process from exiting.
///
/// # Errors
///
/// A sentence that begins with the file's name.
pub fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, String> {
    let file = path.to_owned();
    within(DEADLINE, path, move || read_regular(&file, max_bytes))
}

fn read_regular(path: &Path, max_bytes: u64) -> Result<Vec<u8>, String> {
    let name = path.display().to_string();
    let failed = |error| cannot_read(&name, &error);
    let about = fs::metadata(path).map_err(failed)?;
    if about.is_dir() {
        return Err(failed(std::io::ErrorKind::IsADirectory.into()));
    }
    // Opening a pipe waits for its writer.
    if !about.is_file() {
        return Err(format!("{name}: this is a pipe, a socket or a device, not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(max_bytes + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > max_bytes {
        return Err(format!("{name}: is larger than {} MiB", max_bytes >> 20));
    }
    Ok(bytes)
}

/// Reads on a thread of its own, because nothing can interrupt a read that hangs.
fn within(
    deadline: Duration,
    path: &Path,
    read: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
) -> Result<Vec<u8>, String> {
    let name = path.display().to_string();
    refuse_while_hanging(path)?;
    let (send, answer) = channel();
    let lives = Arc::new(());
    let hangs = Arc::downgrade(&lives);
    let run = move || {
        let _lives = lives;
        // The reader may have given up.
        _ = send.send(read());
    };
    thread::Builder::new()
        .name("read-file".to_owned())
        .spawn(run)
        .map_err(|error| cannot_read(&name, &error))?;
    answer.recv_timeout(deadline).unwrap_or_else(|_| {
        hanging().push((path.to_owned(), hangs));
        Err(format!(
            "{name}: was not read within {} s; does its file system hang?",
            deadline.as_secs()
        ))
    })
}

/// Threads that hang must not pile up.
fn refuse_while_hanging(path: &Path) -> Result<(), String> {
    let mut hanging = hanging();
    hanging.retain(|(_, thread)| thread.strong_count() > 0);
    if hanging.len() >= MAX_HANGING || hanging.iter().any(|(file, _)| file == path) {
        let file = hanging.iter().find(|(file, _)| file == path).or(hanging.first());
        let file = file.map_or(path, |(file, _)| file).display();
        return Err(format!("{}: is not read while reading {file} hangs", path.display()));
    }
    Ok(())
}

fn hanging() -> std::sync::MutexGuard<'static, Vec<(PathBuf, Weak<()>)>> {
    HANGING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing can be said about time here but that it ends.
    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn one_thread_hangs_for_one_file() {
        let path = Path::new("/hangs/for/this/test");
        let (go, waits) = channel::<()>();
        let error = within(SHORT, path, move || {
            _ = waits.recv();
            Ok(Vec::new())
        });
        assert!(error.unwrap_err().contains("was not read within"));
        for _ in 0..100 {
            let error = within(SHORT, path, || panic!("a second thread for the same file"));
            assert!(error.unwrap_err().contains("hangs"));
        }
        drop(go);
        // Once it goes on, the file can be read again.
        let mut read = Err(String::new());
        for _ in 0..1_000 {
            read = within(Duration::from_secs(20), path, || Ok(vec![7]));
            if read.is_ok() {
                break;
            }
            thread::sleep(SHORT);
        }
        assert_eq!(read, Ok(vec![7]));
    }

    #[test]
    fn only_regular_files_up_to_a_size() {
        let directory = std::env::temp_dir();
        assert!(read_file(&directory, 9).unwrap_err().ends_with("this is a directory, not a file"));
        let device = read_file(Path::new("/dev/zero"), 9).unwrap_err();
        assert_eq!(device, "/dev/zero: this is a pipe, a socket or a device, not a file");
        let path = directory.join(format!("waterclock-size-{}", std::process::id()));
        fs::write(&path, vec![b'#'; 1 << 20]).unwrap();
        assert_eq!(read_file(&path, 1 << 20).map(|bytes| bytes.len()), Ok(1 << 20));
        fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
        assert!(read_file(&path, 1 << 20).unwrap_err().ends_with(": is larger than 1 MiB"));
        fs::remove_file(&path).unwrap();
    }
}

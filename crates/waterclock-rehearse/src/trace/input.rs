//! What events are read from: a file or standard input, compressed or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use waterclock_config::cannot_read;

use super::progress::Progress;
use crate::failure::Failure;

/// How much is asked of the system at a time.
const CHUNK: usize = 1 << 17;
/// How every gzip file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Bytes to read on any thread, and what complaints call them.
pub(super) struct Input {
    pub(super) name: String,
    pub(super) bytes: Box<dyn BufRead + Send>,
    pub(super) progress: Progress,
}

impl Input {
    /// Opens a file; `-` or nothing is standard input. Progress is shown if it can be.
    pub(super) fn open(path: Option<&Path>, shows_progress: bool) -> Result<Input, Failure> {
        match path {
            Some(path) if path.as_os_str() != "-" => Input::of_file(path, shows_progress),
            _ => Input::new("<stdin>".to_owned(), io::stdin(), Progress::hidden()),
        }
    }

    fn of_file(path: &Path, shows_progress: bool) -> Result<Input, Failure> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| cannot_read(&name, &error))?;
        // Only regular files know how long they are.
        let length = file.metadata().ok().filter(|about| about.is_file()).map(|about| about.len());
        let progress = match length {
            Some(length) if shows_progress => Progress::through(length),
            _ => Progress::hidden(),
        };
        Input::new(name, progress.watch(file), progress)
    }

    fn new(
        name: String,
        mut bytes: impl Read + Send + 'static,
        progress: Progress,
    ) -> Result<Input, Failure> {
        // A pipe may bring its bytes one by one.
        let mut first = Vec::with_capacity(GZIP.len());
        let look = bytes.by_ref().take(GZIP.len() as u64).read_to_end(&mut first);
        look.map_err(|error| cannot_read(&name, &error))?;
        let is_gzip = first == GZIP;
        let bytes = BufReader::with_capacity(CHUNK, Cursor::new(first).chain(bytes));
        let bytes: Box<dyn BufRead + Send> = if is_gzip {
            // Files that were put together from several are read to the end of the last.
            Box::new(BufReader::with_capacity(CHUNK, MultiGzDecoder::new(bytes)))
        } else {
            Box::new(bytes)
        };
        Ok(Input { name, bytes, progress })
    }
}

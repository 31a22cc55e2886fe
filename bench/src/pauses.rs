//! What every single call took, and how to tell a pause from a disturbance.
//!
//! The machine is shared: any call may be interrupted. So the same calls, in the same order and with
//! the same hashes, are made in several processes, and for each call the least of its times counts.
//! What the limiter itself does recurs; what the machine does to it does not.

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, process};

use crate::keys::in_chunks;

/// The times of calls in order, in nanoseconds.
#[derive(Default)]
pub struct Pauses(Vec<u32>);

impl Pauses {
    /// Checks each of the keys once.
    pub fn of(check: &dyn Fn(&String) -> bool, keys: std::ops::Range<usize>) -> Self {
        let mut pauses = Self(Vec::with_capacity(keys.len() + 1));
        for chunk in in_chunks::<String>(keys) {
            for key in &chunk {
                pauses.time(|| {
                    check(key);
                });
            }
        }
        pauses
    }

    pub fn time(&mut self, call: impl Fn()) {
        let start = Instant::now();
        call();
        self.0.push(start.elapsed().as_nanos().try_into().unwrap_or(u32::MAX));
    }

    /// Bytes the times themselves take.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.0[..])
    }

    /// Leaves them in a file for the process that asked.
    pub fn save(&self, what: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("waterclock-bench-{}-{what}", process::id()));
        let bytes: Vec<u8> = self.0.iter().flat_map(|nanos| nanos.to_le_bytes()).collect();
        fs::write(&path, bytes).expect("the directory for temporary files can be written");
        path
    }

    fn take(path: &Path) -> Self {
        let bytes = fs::read(path).expect("the child left a file");
        fs::remove_file(path).expect("the file can be removed");
        let (nanos, _) = bytes.as_chunks();
        Self(nanos.iter().map(|nanos| u32::from_le_bytes(*nanos)).collect())
    }

    fn worst(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

/// Several times the same calls.
#[derive(Default)]
pub struct Repeats {
    least: Pauses,
    worst: Option<u32>,
}

impl Repeats {
    pub const COLUMNS: [&str; 3] = ["worst µs", "p99.99 µs", "worst µs, disturbed"];

    /// Takes over what a child left.
    pub fn add(&mut self, path: &Path) {
        let pauses = Pauses::take(path);
        let worst = pauses.worst();
        self.worst = Some(self.worst.map_or(worst, |least| least.min(worst)));
        if self.least.0.is_empty() {
            self.least = pauses;
        } else {
            let pairs = self.least.0.iter_mut().zip(pauses.0);
            pairs.for_each(|(least, nanos)| *least = nanos.min(*least));
        }
    }

    /// As [`Self::COLUMNS`] says.
    pub fn told(mut self) -> [f64; 3] {
        let nanos = &mut self.least.0;
        nanos.sort_unstable();
        let micros = |nanos: u32| f64::from(nanos) / 1e3;
        let (worst, tail) = (nanos[nanos.len() - 1], nanos[nanos.len() - 1 - nanos.len() / 10_000]);
        [micros(worst), micros(tail), self.worst.map_or(f64::NAN, micros)]
    }
}

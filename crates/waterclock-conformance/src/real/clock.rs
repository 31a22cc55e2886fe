//! A wall clock that tests can move, for one process.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;

/// A shared library that a process preloads to see a shifted time, and the file with the offset.
#[derive(Debug)]
pub(super) struct ShiftedClock {
    dir: TempDir,
    file: File,
    offset: Mutex<i64>,
}

impl ShiftedClock {
    /// Builds the library, with the C compiler that Rust uses as its linker.
    pub(super) fn new() -> Self {
        let dir = TempDir::with_prefix("waterclock-clock-").expect("a directory can be made");
        let file = File::create(dir.path().join("offset")).expect("the directory can be written");
        let clock = Self { dir, file, offset: Mutex::new(0) };
        clock.set(0);
        let source = clock.path("shim.c");
        fs::write(&source, include_str!("clock_shim.c")).expect("the directory can be written");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"]).arg(clock.path("shim.so"));
        let built = cc.arg(source).status().expect("cc, the C compiler, is installed");
        assert!(built.success(), "the clock shim does not compile");
        clock
    }

    /// The environment that makes a process use this clock.
    pub(super) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![("LD_PRELOAD", self.path("shim.so")), ("WATERCLOCK_CLOCK_OFFSET", self.path("offset"))]
    }

    /// Sets the clock this many microseconds ahead of the system's.
    pub(super) fn set(&self, micros: i64) {
        let mut offset = self.offset.lock();
        *offset = micros;
        self.write(*offset);
    }

    /// Moves the clock from where it is.
    pub(super) fn step(&self, by: Duration, forward: bool) {
        let micros = i64::try_from(by.as_micros()).expect("a step of less than 292 471 years");
        let mut offset = self.offset.lock();
        *offset += if forward { micros } else { -micros };
        self.write(*offset);
    }

    fn write(&self, offset: i64) {
        self.file.write_all_at(&offset.to_ne_bytes(), 0).expect("the offset can be written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

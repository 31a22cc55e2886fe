//! Stands in for RocksDB, of which nothing is measured.
//!
//! limitador 0.14 does not compile with its Redis storage alone: the names of its keys live in the
//! part that is only there with RocksDB, and that is half an hour of C++. These are the names
//! limitador's disk storage mentions; there is never a database, so nothing behind them runs.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::path::Path;

#[derive(Debug, PartialEq, Eq)]
pub enum ErrorKind {
    NotSupported,
    TimedOut,
    TryAgain,
}

#[derive(Debug)]
pub struct Error;

impl Error {
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::NotSupported
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("there is no RocksDB in the benchmarks")
    }
}

impl std::error::Error for Error {}

pub enum DBCompressionType {
    None,
    Bz2,
}

pub enum CompactionDecision {
    Keep,
    Remove,
}

pub enum IteratorMode {
    Start,
}

/// Operands of a merge: there are none.
pub struct MergeOperands(());

impl<'a> IntoIterator for &'a MergeOperands {
    type Item = &'a [u8];
    type IntoIter = std::iter::Empty<&'a [u8]>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::empty()
    }
}

#[derive(Default)]
pub struct Options(());

impl Options {
    pub fn create_if_missing(&mut self, _: bool) {}

    pub fn set_compression_type(&mut self, _: DBCompressionType) {}

    pub fn set_compaction_filter<F>(&mut self, _: &str, _: F)
    where
        F: FnMut(u32, &[u8], &[u8]) -> CompactionDecision + Send + 'static,
    {
    }

    pub fn set_merge_operator_associative<F>(&mut self, _: &str, _: F)
    where
        F: Fn(&[u8], Option<&[u8]>, &MergeOperands) -> Option<Vec<u8>> + Send + Sync + 'static,
    {
    }
}

pub struct MultiThreaded;

pub type DB = DBWithThreadMode<MultiThreaded>;

/// A database that cannot exist.
pub struct DBWithThreadMode<T> {
    never: Infallible,
    threads: PhantomData<T>,
}

type Entry = Result<(Box<[u8]>, Box<[u8]>), Error>;

impl<T> DBWithThreadMode<T> {
    pub fn open(_: &Options, _: impl AsRef<Path>) -> Result<Self, Error> {
        Err(Error)
    }

    pub fn get(&self, _: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        match self.never {}
    }

    pub fn merge(&self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<(), Error> {
        match self.never {}
    }

    pub fn delete(&self, _: impl AsRef<[u8]>) -> Result<(), Error> {
        match self.never {}
    }

    pub fn iterator(&self, _: IteratorMode) -> std::iter::Empty<Entry> {
        match self.never {}
    }

    pub fn prefix_iterator(&self, _: impl AsRef<[u8]>) -> std::iter::Empty<Entry> {
        match self.never {}
    }
}

//! The synchronisation primitives in one place, so that shuttle can drive every interleaving of the
//! very code that ships (`RUSTFLAGS="--cfg shuttle"`).

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use std::sync::PoisonError;

/// Locks; a panic elsewhere is no reason to stop limiting. What the locks guard is changed by pure
/// functions that do not panic half-way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

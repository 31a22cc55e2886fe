//! What breaks around a store, with real processes, and what callers see of it.

mod access;
mod connections;
mod crash;
mod foreign;
mod hang;
mod impatience;
mod loading;
mod lost_state;
mod memory;
mod network;
mod orders;
pub(crate) mod rights;
mod scripts;

use waterclock_redis::{OnStoreError, Serving};

/// Failures are returned, so that tests see their kind.
pub(crate) const DENY: Serving = Serving::new(OnStoreError::Deny);

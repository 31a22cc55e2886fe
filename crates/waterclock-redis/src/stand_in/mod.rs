//! What answers when the store need not be asked, or cannot be.

mod denied;
mod fill;
mod lease;

use waterclock::{Failure, StoreError};

pub(crate) use denied::Denied;
pub(crate) use lease::Leases;
pub(crate) use waterclock::fallback::{Local, Unsettled, wave_through};

/// Keys that are settled with the store at once.
pub(crate) const AT_ONCE: usize = 64;

/// Whether a call that failed like this certainly changed nothing, and may work another time.
pub(crate) fn may_try_later(error: &StoreError) -> bool {
    use Failure::{Auth, Loading, Open, OutOfMemory, Overloaded, ReadOnly};
    matches!(error.failure(), Some(Open | Overloaded | Loading | ReadOnly | OutOfMemory | Auth))
}

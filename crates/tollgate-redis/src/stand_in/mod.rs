//! What answers when the store need not be asked, or cannot be.

mod denied;
mod lease;
mod local;
mod share;

pub(crate) use denied::Denied;
pub(crate) use lease::Leases;
pub(crate) use local::Local;

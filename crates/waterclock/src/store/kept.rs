//! Policies that a store keeps as text for all its servers: the bounds, and what a caller learns of changes.

use super::StoreError;

/// The most policies that a store keeps.
pub const MAX_KEPT_POLICIES: usize = 10_000;
/// The longest text of a policy that is kept, in bytes.
pub const MAX_KEPT_TEXT: usize = 16 * 1_024;
/// How long all names and texts together may be, in bytes.
pub const MAX_KEPT_BYTES: usize = 16 * 1_024 * 1_024;
/// The longest name, in bytes.
const MAX_NAME: usize = 64;

/// What [`Store::keep_policy`](super::Store::keep_policy) or
/// [`drop_kept_policy`](super::Store::drop_kept_policy) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptChange {
    /// The version before the call.
    pub before: u64,
    /// The version after it; the same if nothing changed.
    pub version: u64,
    /// Whether a policy of that name was kept before the call.
    pub existed: bool,
}

impl KeptChange {
    /// For stores.
    #[must_use]
    pub fn new(before: u64, version: u64, existed: bool) -> Self {
        Self { before, version, existed }
    }

    /// Whether anything is different now.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.before != self.version
    }
}

/// What changed since a version, see [`Store::kept_policies`](super::Store::kept_policies). Changes may come in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptChanges {
    /// The version that these changes lead to: ask for what changed since it next.
    pub version: u64,
    /// Whether this is the first page of all policies, because the store does not know what changed since the version
    /// that was asked for. Policies that are on none of the pages are no longer kept.
    pub starts_over: bool,
    /// Whether there is another page.
    pub has_more: bool,
    /// Names and texts, in the order of their last change; no text for one that was dropped.
    pub changes: Vec<(String, Option<String>)>,
}

impl KeptChanges {
    /// For stores: nothing changed since this version.
    #[must_use]
    pub fn none(version: u64) -> Self {
        Self { version, ..Self::default() }
    }
}

/// For stores: whether a policy has a name and a text that can be kept.
///
/// # Errors
///
/// [`StoreError::Unfit`], with a sentence that names the bound.
pub fn check_kept(name: &str, text: &str) -> Result<(), StoreError> {
    if !(1..=MAX_NAME).contains(&name.len()) {
        let reason = format!("the name of a kept policy must have 1 to {MAX_NAME} bytes");
        return Err(StoreError::unfit(reason));
    }
    if !(1..=MAX_KEPT_TEXT).contains(&text.len()) {
        let reason = format!(
            "the text of policy `{name}` must have 1 to {MAX_KEPT_TEXT} bytes; it has {}",
            text.len()
        );
        return Err(StoreError::unfit(reason));
    }
    Ok(())
}

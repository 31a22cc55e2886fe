//! What a store's failure means to the person at the keyboard.

use waterclock::{Failure, StoreError};

use waterclock_redis::masked;

/// One sentence with the address, never with its password.
pub(crate) fn sentence(url: &str, error: &StoreError) -> String {
    match error {
        StoreError::Failed { kind, .. } => {
            format!("{}: {}{}", masked(url), one_line(&error.to_string()), instead(*kind))
        }
        // These name the policy or the address themselves.
        _ => one_line(&error.to_string()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// What to do about it, where that is known.
fn instead(kind: Failure) -> &'static str {
    match kind {
        Failure::Unreachable => "; check the address",
        Failure::Auth => "; check the user and the password",
        Failure::ReadOnly => "; name the primary, or use redis-sentinel://",
        _ => "",
    }
}

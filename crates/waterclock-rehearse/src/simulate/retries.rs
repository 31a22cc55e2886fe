//! Clients that come back after a refusal.

use waterclock_config::Micros;

/// How often a refused client retries, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    /// How many times; 0 for not at all.
    pub most: u32,
    /// When.
    pub after: RetryAfter,
}

/// When a refused client retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAfter {
    /// After the advised wait, as `Retry-After` says.
    #[default]
    Honour,
    /// After a wait of its own, whatever `Retry-After` says.
    Ignore {
        /// That wait.
        backoff: Micros,
    },
}

impl Retries {
    /// The wait before the next attempt; none if the advice is never to come back, and the client follows it.
    pub(super) fn wait_us(self, advised_us: Option<u64>) -> Option<u64> {
        match self.after {
            RetryAfter::Honour => advised_us,
            RetryAfter::Ignore { backoff } => Some(backoff.0.max(1)),
        }
    }
}

impl RetryAfter {
    /// What such clients do, in words.
    pub(super) fn in_words(self) -> String {
        match self {
            RetryAfter::Honour => "honour Retry-After".to_owned(),
            RetryAfter::Ignore { backoff } => {
                format!("ignore it, retry every {}", backoff.in_words())
            }
        }
    }
}

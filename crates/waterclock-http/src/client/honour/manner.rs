//! What all services of a layer go by.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use waterclock::Timestamp;

use super::advice::{advised_wait, invites_retry};
use super::not_before::NotBefore;
use crate::client::patience::Patience;

/// The longest wait that a server is believed, unless told otherwise.
const AT_MOST: Duration = Duration::from_secs(3_600);
/// For how many servers it is remembered when to come back.
const MOST_AUTHORITIES: usize = 10_000;

type AuthorityOf<R> = Arc<dyn Fn(&R) -> String + Send + Sync>;
type HeadOf<P> = Arc<dyn for<'p> Fn(&'p P) -> (StatusCode, &'p HeaderMap) + Send + Sync>;
type CopyOf<R> = Arc<dyn Fn(&R) -> Option<R> + Send + Sync>;

pub(super) struct Manner<R, P> {
    pub(super) authority: AuthorityOf<R>,
    pub(super) head: HeadOf<P>,
    pub(super) copy: CopyOf<R>,
    pub(super) retries: usize,
    pub(super) at_most: Duration,
    pub(super) patience: Patience,
    pub(super) not_before: Arc<NotBefore>,
}

impl<R, P> Manner<R, P> {
    pub(super) fn new(authority: AuthorityOf<R>, head: HeadOf<P>) -> Self {
        Self {
            authority,
            head,
            copy: Arc::new(|_| None),
            retries: 0,
            at_most: AT_MOST,
            patience: Patience::default(),
            not_before: Arc::new(NotBefore::new(MOST_AUTHORITIES)),
        }
    }

    /// Remembers what a response advises. If its request may be sent again, says when: not before the server
    /// wants to hear from anybody, which another response may have put further off.
    pub(super) fn hear(&self, authority: &str, response: &P) -> Option<Timestamp> {
        let (status, headers) = (self.head)(response);
        let now = self.patience.now();
        let wait = advised_wait(status, headers, now)?.min(self.at_most);
        let until = self.not_before.learn(authority, now.after(wait));
        invites_retry(status, headers).then_some(until)
    }

    /// A copy to send again, if that may be and can be.
    pub(super) fn copy_for(&self, retries_left: usize, request: &R) -> Option<R> {
        if retries_left == 0 { None } else { (self.copy)(request) }
    }
}

impl<R, P> Clone for Manner<R, P> {
    fn clone(&self) -> Self {
        Self {
            authority: Arc::clone(&self.authority),
            head: Arc::clone(&self.head),
            copy: Arc::clone(&self.copy),
            retries: self.retries,
            at_most: self.at_most,
            patience: self.patience.clone(),
            not_before: Arc::clone(&self.not_before),
        }
    }
}

//! What administrators have said about single keys, while the server runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use waterclock::{Policy, StoreError};

use super::key::{Key, Standing};
use super::{Engine, Served};
use waterclock_config::LimitSpec;

/// How many there may be: a list kept by hand, not a second store.
const MOST: usize = 10_000;

/// What goes for one key instead of the policy.
#[derive(Clone, Debug)]
pub enum Exception {
    /// Always refused.
    Block,
    /// Never refused.
    Exempt,
    /// Limits of its own.
    Override(Arc<Policy>),
}

/// What an administrator wants to go for one key.
#[derive(Clone, Debug)]
pub enum Instead {
    /// Always refuse it.
    Block,
    /// Never refuse it.
    Exempt,
    /// Limits of its own.
    Limits(Vec<LimitSpec>),
}

type PolicyAndKey = (Box<str>, Box<[u8]>);

/// The exceptions of every policy. They last until they are taken back or the server ends.
#[derive(Debug, Default)]
pub struct Exceptions {
    of: RwLock<HashMap<PolicyAndKey, Exception>>,
    /// Read without the lock, because mostly there are none.
    count: AtomicUsize,
}

impl Exceptions {
    /// The exception for a key, if there is one.
    #[must_use]
    pub fn of(&self, policy: &str, key: &Key<'_>) -> Option<Exception> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.of.read().get(&(policy.into(), key.bytes().into())).cloned()
    }

    /// Makes an exception, or replaces the one there is. Says `false` if there are too many.
    #[must_use]
    pub fn make(&self, policy: &str, key: &Key<'_>, exception: Exception) -> bool {
        let mut of = self.of.write();
        let place = (policy.into(), key.bytes().into());
        if of.len() >= MOST && !of.contains_key(&place) {
            return false;
        }
        of.insert(place, exception);
        self.count.store(of.len(), Ordering::Release);
        true
    }

    /// Whether one more can be made for this key.
    pub(super) fn has_room_for(&self, policy: &str, key: &Key<'_>) -> bool {
        let of = self.of.read();
        of.len() < MOST || of.contains_key(&(policy.into(), key.bytes().into()))
    }

    /// Those of a policy that is gone go with it.
    pub(super) fn forget(&self, policy: &str) {
        let mut of = self.of.write();
        of.retain(|(of_policy, _), _| **of_policy != *policy);
        self.count.store(of.len(), Ordering::Release);
    }

    /// Takes an exception back.
    pub(super) fn take_back(&self, policy: &str, key: &Key<'_>) -> Option<Exception> {
        let mut of = self.of.write();
        let was = of.remove(&(policy.into(), key.bytes().into()));
        self.count.store(of.len(), Ordering::Release);
        was
    }
}

impl Engine {
    /// Makes an exception for a key. Says `false` if there are too many already.
    pub async fn make_exception(
        &self,
        served: &Served,
        key: &Key<'_>,
        instead: Instead,
    ) -> Result<bool, StoreError> {
        let _one_at_a_time = self.changing.lock().await;
        let exception = match instead {
            Instead::Block => Exception::Block,
            Instead::Exempt => Exception::Exempt,
            Instead::Limits(limits) => {
                if !self.exceptions.has_room_for(served.name(), key) {
                    return Ok(false);
                }
                let policy = served.with_limits(key, &limits, &self.place).await?;
                return Ok(self.exceptions.make(served.name(), key, Exception::Override(policy)));
            }
        };
        self.drop_exception(served, key).await;
        Ok(self.exceptions.make(served.name(), key, exception))
    }

    /// Takes the exception for a key back: its policy goes for it again.
    pub async fn take_back(&self, served: &Served, key: &Key<'_>) {
        let _one_at_a_time = self.changing.lock().await;
        self.drop_exception(served, key).await;
    }

    /// What goes for a key instead of its policy, by an administrator's word or the file's: block before exempt
    /// before limits of its own, as decisions are made.
    #[must_use]
    pub fn exception_of(&self, served: &Served, key: &Key<'_>) -> Option<&'static str> {
        match (self.exceptions.of(served.name(), key), key.standing()) {
            (Some(Exception::Block), _) | (_, Standing::Blocked) => Some("block"),
            (Some(Exception::Exempt), _) | (_, Standing::Exempt) => Some("exempt"),
            (Some(Exception::Override(_)), _) | (_, Standing::Override(_)) => Some("override"),
            (None, Standing::Limited) => None,
        }
    }

    async fn drop_exception(&self, served: &Served, key: &Key<'_>) {
        let was = self.exceptions.take_back(served.name(), key);
        if let Some(Exception::Override(policy)) = was {
            self.place.remove(policy.name()).await;
        }
    }
}

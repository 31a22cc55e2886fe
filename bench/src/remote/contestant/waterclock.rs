//! Waterclock's own store: every decision in Redis, or from units leased beforehand.

use std::time::Duration;

use waterclock::{Gcra, Policy, Store};
use waterclock_redis::{Lease, RedisStore, Serving};

use super::{Contestant, Limiter, here};
use crate::remote::Error;
use crate::remote::quota::Quota;

pub const STRICT: &str = "waterclock";
pub const LEASE: &str = "waterclock-lease";

pub fn strict() -> Contestant {
    Contestant {
        id: STRICT,
        name: "waterclock",
        how: "gcra, checks that wait together share a script call",
        enter: Ok(here::enter::<Waterclock<false>>()),
    }
}

pub fn lease() -> Contestant {
    Contestant {
        id: LEASE,
        name: "waterclock, lease of 1000",
        how: "gcra, units taken out a thousand at a time and spent here",
        enter: Ok(here::enter::<Waterclock<true>>()),
    }
}

const POLICY: &str = "p";

struct Waterclock<const LEASED: bool>(RedisStore);

impl<const LEASED: bool> Limiter for Waterclock<LEASED> {
    async fn open(url: &str, Quota { limit, seconds }: Quota) -> Result<Self, Error> {
        // As patient as the client of the others is by default.
        let store = RedisStore::builder(url).deadline(Duration::from_millis(500)).connect().await?;
        let gcra = Gcra::new(limit, Duration::from_secs(seconds))?.with_capacity(limit);
        let lease = LEASED.then_some(Lease::new(1_000, Duration::from_secs(1)));
        let policy = Policy::new(POLICY, [gcra])?;
        store.set_policy_as(policy, Serving::default().with_lease(lease)).await?;
        Ok(Self(store))
    }

    async fn check(&self, key: &str) -> Result<bool, Error> {
        Ok(self.0.check(POLICY, key).await?.is_allowed())
    }

    /// What is measured is the store, not what stands in for it.
    fn verify(&self) -> Result<(), Error> {
        match self.0.failures().iter().find(|(_, count)| *count > 0) {
            Some((failure, count)) => Err(format!("{count} calls failed: {failure:?}").into()),
            None => Ok(()),
        }
    }
}

//! limitador: a counter per fixed window, checked in one call and raised in the next.
//!
//! Its other storage, cached and written behind, cannot take part: it keeps a lock while it waits,
//! so that callers on one thread soon wait for each other for ever.

use std::collections::HashMap;

use limitador::AsyncRateLimiter;
use limitador::limit::{Limit, Namespace, Predicate};
use limitador::storage::redis::AsyncRedisStorage;

use super::{Contestant, LIMITADOR, Limiter, here};
use crate::remote::Error;
use crate::remote::quota::Quota;

pub fn contestant() -> Contestant {
    Contestant {
        id: LIMITADOR,
        name: "limitador 0.14",
        how: "fixed window, reads and then counts",
        enter: Ok(here::enter::<Limitador>()),
    }
}

struct Limitador {
    limiter: AsyncRateLimiter,
    namespace: Namespace,
}

impl Limiter for Limitador {
    async fn open(url: &str, Quota { limit, seconds }: Quota) -> Result<Self, Error> {
        let storage = AsyncRedisStorage::new(url).await?;
        let limiter = AsyncRateLimiter::new_with_storage(Box::new(storage));
        let user = "user".try_into()?;
        let conditions: [Predicate; 0] = [];
        // With an id its keys are the short ones.
        limiter.add_limit(Limit::with_id("l", "bench", limit, seconds, conditions, [user]));
        Ok(Self { limiter, namespace: Namespace::from("bench") })
    }

    async fn check(&self, key: &str) -> Result<bool, Error> {
        let request = HashMap::from([("user".to_owned(), key.to_owned())]).into();
        let answer = self.limiter.check_rate_limited_and_update(&self.namespace, &request, 1).await;
        // Its errors cannot be sent between threads.
        Ok(!answer.map_err(|error| error.to_string())?.limited)
    }
}

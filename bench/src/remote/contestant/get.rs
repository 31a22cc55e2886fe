//! The floor: one GET per decision. No limiter that asks Redis each time can be faster.

use redis::aio::MultiplexedConnection;

use super::{Contestant, Limiter, here};
use crate::remote::Error;
use crate::remote::quota::Quota;

pub const ID: &str = "get";

pub fn contestant() -> Contestant {
    Contestant {
        id: ID,
        name: "GET, the floor",
        how: "reads the key and admits",
        enter: Ok(here::enter::<Get>()),
    }
}

struct Get(MultiplexedConnection);

impl Limiter for Get {
    async fn open(url: &str, _: Quota) -> Result<Self, Error> {
        Ok(Self(redis::Client::open(url)?.get_multiplexed_async_connection().await?))
    }

    async fn check(&self, key: &str) -> Result<bool, Error> {
        let mut connection = self.0.clone();
        redis::cmd("GET").arg(key).query_async::<Option<i64>>(&mut connection).await?;
        Ok(true)
    }
}

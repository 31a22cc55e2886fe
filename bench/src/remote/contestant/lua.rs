//! What one writes oneself: GCRA in a script, `gcra.lua`.

use redis::aio::MultiplexedConnection;

use super::{Contestant, Limiter, here};
use crate::remote::Error;
use crate::remote::quota::Quota;

pub const ID: &str = "lua";

pub fn contestant() -> Contestant {
    Contestant {
        id: ID,
        name: "plain Lua GCRA",
        how: "gcra, a script of twenty lines by EVALSHA",
        enter: Ok(here::enter::<Lua>()),
    }
}

struct Lua {
    connection: MultiplexedConnection,
    hash: String,
    interval_us: u64,
    burst: u64,
}

impl Limiter for Lua {
    async fn open(url: &str, quota: Quota) -> Result<Self, Error> {
        let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(include_str!("gcra.lua"));
        let hash = load.query_async(&mut connection).await?;
        let interval_us = quota.seconds * 1_000_000 / quota.limit;
        Ok(Self { connection, hash, interval_us, burst: quota.limit })
    }

    async fn check(&self, key: &str) -> Result<bool, Error> {
        let mut connection = self.connection.clone();
        let mut check = redis::cmd("EVALSHA");
        check.arg(&self.hash).arg(1).arg(key).arg(self.interval_us).arg(self.burst);
        let answer: [i64; 5] = check.query_async(&mut connection).await?;
        Ok(answer[0] == 1)
    }
}

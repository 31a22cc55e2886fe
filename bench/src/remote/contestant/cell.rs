//! redis-cell: GCRA as a module of the server.

use std::path::PathBuf;

use redis::aio::MultiplexedConnection;

use super::{Contestant, Limiter, here};
use crate::remote::Error;
use crate::remote::quota::Quota;

pub const ID: &str = "cell";

pub fn contestant(module: &Result<PathBuf, String>) -> Contestant {
    Contestant {
        id: ID,
        name: "redis-cell 0.2.2",
        how: "gcra, a module in the server, CL.THROTTLE",
        enter: module.as_ref().map(|_| here::enter::<Cell>()).map_err(String::clone),
    }
}

struct Cell {
    connection: MultiplexedConnection,
    quota: Quota,
}

impl Limiter for Cell {
    async fn open(url: &str, quota: Quota) -> Result<Self, Error> {
        let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { connection, quota })
    }

    async fn check(&self, key: &str) -> Result<bool, Error> {
        let mut connection = self.connection.clone();
        let Quota { limit, seconds } = self.quota;
        let mut check = redis::cmd("CL.THROTTLE");
        // It admits one more at once than its burst.
        check.arg(key).arg(limit - 1).arg(limit).arg(seconds).arg(1);
        let answer: [i64; 5] = check.query_async(&mut connection).await?;
        Ok(answer[0] == 0)
    }
}

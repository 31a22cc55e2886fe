//! trypema: a sliding window of cells, in Redis each time or here with a sync in the background.

use std::sync::Arc;

use trypema::hybrid::HybridRateLimiterProvider;
use trypema::redis::{RedisKey, RedisKeyRef, RedisRateLimiterProvider};
use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use super::{Contestant, HYBRID, Limiter, here};
use crate::remote::Error;
use crate::remote::quota::Quota;

pub fn strict() -> Contestant {
    Contestant {
        id: "trypema",
        name: "trypema 2.2",
        how: "sliding window in cells of 100 ms, a script",
        enter: Ok(here::enter::<Strict>()),
    }
}

pub fn hybrid() -> Contestant {
    Contestant {
        id: HYBRID,
        name: "trypema 2.2, hybrid",
        how: "the same, counted here and synchronised every 10 ms",
        enter: Ok(here::enter::<Hybrid>()),
    }
}

fn window(quota: Quota) -> Result<(WindowSize, RateLimit), Error> {
    let rate = RateLimit::per_second(quota.limit as f64 / quota.seconds as f64)?;
    Ok((WindowSize::seconds(quota.seconds)?, rate))
}

struct Strict {
    provider: Arc<RedisRateLimiterProvider>,
    rate: RateLimit,
}

impl Limiter for Strict {
    async fn open(url: &str, quota: Quota) -> Result<Self, Error> {
        let connection = redis::Client::open(url)?.get_connection_manager().await?;
        let (window, rate) = window(quota)?;
        let builder = RedisRateLimiterProvider::builder(connection).window_size(window);
        Ok(Self { provider: builder.build()?, rate })
    }

    async fn check(&self, key: &str) -> Result<bool, Error> {
        let key = RedisKey::try_from(key)?;
        let decision = self.provider.absolute().inc(&key, &self.rate, 1).await?;
        Ok(matches!(decision, RateLimitDecision::Allowed))
    }
}

struct Hybrid {
    provider: Arc<HybridRateLimiterProvider>,
    rate: RateLimit,
}

impl Limiter for Hybrid {
    async fn open(url: &str, quota: Quota) -> Result<Self, Error> {
        let connection = redis::Client::open(url)?.get_connection_manager().await?;
        let (window, rate) = window(quota)?;
        let builder = HybridRateLimiterProvider::builder(connection).window_size(window);
        Ok(Self { provider: builder.build()?, rate })
    }

    /// As its documentation has it for hot paths: without awaiting where that is possible.
    async fn check(&self, key: &str) -> Result<bool, Error> {
        let limiter = self.provider.absolute();
        let decision = match limiter.try_inc(RedisKeyRef::try_from(key)?, 1)? {
            Some(decision) => decision,
            None => limiter.inc(&RedisKey::try_from(key)?, &self.rate, 1).await?,
        };
        Ok(matches!(decision, RateLimitDecision::Allowed))
    }
}

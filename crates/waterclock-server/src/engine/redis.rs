//! The Redis store that a configuration describes.

use waterclock_config::{Invalid, StoreConfig};
use waterclock_redis::{RedisStore, RedisStoreBuilder};

use crate::tls::Authorities;

// The configuration refuses what the store could not hold.
const _: () = assert!(waterclock_config::MAX_SHARING == waterclock_redis::MOST_BY_UNITS);

/// A builder for the store at this URL, with every setting of `[store]`.
pub fn redis_store(config: &StoreConfig, url: &str) -> Result<RedisStoreBuilder, Invalid> {
    let builder = RedisStore::builder(url)
        .deadline(config.deadline.duration())
        .nodes(config.nodes)
        .key_secret(&config.key_secret()?);
    Ok(match certificate_authority(config)? {
        Some(pem) => builder.root_certificate(&pem),
        None => builder,
    })
}

/// The PEM of `ca`, if the file names one.
pub(crate) fn certificate_authority(config: &StoreConfig) -> Result<Option<Vec<u8>>, Invalid> {
    let Some(path) = config.ca() else { return Ok(None) };
    let read = Authorities::read(&path);
    read.map(|read| Some(read.pem)).map_err(|error| config.ca_error(&format!("names {error}")))
}

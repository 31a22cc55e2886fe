//! Whom the server trusts.

use waterclock_config::{Config, Invalid};
use waterclock_http::{ClientIp, TrustedProxies};

use crate::access::Access;

/// Tokens and trusted proxies: replaced whole by a reload.
pub(crate) struct Identity {
    pub(crate) access: Access,
    pub(crate) clients: ClientIp,
    pub(crate) proxies: TrustedProxies,
}

impl Identity {
    pub(crate) fn new(config: &Config) -> Result<Identity, Invalid> {
        let tokens = config.server.tokens()?;
        let proxies = TrustedProxies::parse(&config.server.trusted_proxies)
            .map_err(|error| Invalid::from(format!("{}: {error}", config.file)))?;
        Ok(Identity {
            access: Access::new(&tokens, config.server.is_open()),
            clients: ClientIp::from(proxies.clone()),
            proxies,
        })
    }
}

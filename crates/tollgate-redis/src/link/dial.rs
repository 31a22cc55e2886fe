//! How to reach a server, and what to make sure of before trusting it.

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Value};
use tollgate::{Failure, StoreError};

use super::reply::of_connection;
use crate::sentinel::Sentinels;

/// Scripts with flags came with this version.
const OLDEST: u32 = 7;

/// Where a server is.
#[derive(Clone, Debug)]
pub(crate) enum Dialer {
    /// At one address.
    Fixed(Box<Client>),
    /// Wherever the sentinels say the primary is.
    Sentinels(Box<Sentinels>),
}

/// What a server says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Greeting {
    /// Things an operator should know.
    pub(crate) warnings: Vec<String>,
}

impl Dialer {
    /// A new connection to a primary that runs our scripts.
    pub(crate) async fn dial(&self) -> Result<(MultiplexedConnection, Greeting), StoreError> {
        let found;
        let client = match self {
            Self::Fixed(client) => client,
            Self::Sentinels(sentinels) => {
                found = sentinels.primary().await?;
                &found
            }
        };
        let mut connection = open(client).await?;
        let info = redis::cmd("INFO").query_async::<Value>(&mut connection).await;
        let greeting = read_info(info.map_err(|error| of_connection(&error))?)?;
        Ok((connection, greeting))
    }
}

/// Connects without a timeout of its own: every call has a deadline.
pub(crate) async fn open(client: &Client) -> Result<MultiplexedConnection, StoreError> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let connected = client.get_multiplexed_async_connection_with_config(&config).await;
    connected.map_err(|error| of_connection(&error))
}

fn read_info(info: Value) -> Result<Greeting, StoreError> {
    let info: String = redis::from_redis_value(info)
        .map_err(|_| StoreError::failed(Failure::BadReply, "INFO answered something else"))?;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    let version = field("redis_version").unwrap_or_default();
    let major: u32 = version.split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    if major < OLDEST {
        let reason = format!("it is version `{version}`, and scripts need {OLDEST}.0 or newer");
        return Err(StoreError::failed(Failure::Version, reason));
    }
    if field("role").is_some_and(|role| role != "master") {
        return Err(StoreError::failed(Failure::ReadOnly, "it is a replica, not a primary"));
    }
    let mut warnings = Vec::new();
    if let Some(policy) = field("maxmemory_policy").filter(|policy| policy.starts_with("allkeys")) {
        warnings.push(format!(
            "maxmemory-policy is {policy}: the server may drop records that still count, and each \
             key it drops may spend its limit once more; use noeviction or volatile-ttl"
        ));
    }
    Ok(Greeting { warnings })
}

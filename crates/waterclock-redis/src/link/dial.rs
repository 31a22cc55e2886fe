//! How to reach a server, and what to make sure of before trusting it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, Value};
use waterclock::{Failure, StoreError};

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

/// A connection, and whether it was closed since.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) connection: MultiplexedConnection,
    closed: Arc<AtomicBool>,
}

impl Line {
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }
}

impl Dialer {
    /// A new connection to a primary that runs our scripts, and what an operator should know of it.
    pub(crate) async fn dial(&self) -> Result<(Line, Vec<String>), StoreError> {
        let found;
        let client = match self {
            Self::Fixed(client) => client,
            Self::Sentinels(sentinels) => {
                found = sentinels.primary().await?;
                &found
            }
        };
        let closed = Arc::default();
        let mut connection = watched(client, &closed).await?;
        let info = redis::cmd("INFO").query_async::<Value>(&mut connection).await;
        let warnings = read_info(info.map_err(|error| of_connection(&error))?)?;
        Ok((Line { connection, closed }, warnings))
    }
}

/// Connects without a timeout of its own: every call has a deadline.
pub(crate) async fn open(client: &Client) -> Result<MultiplexedConnection, StoreError> {
    watched(client, &Arc::default()).await
}

/// The same, and tells when it was closed.
async fn watched(
    client: &Client,
    closed: &Arc<AtomicBool>,
) -> Result<MultiplexedConnection, StoreError> {
    let closed = Arc::clone(closed);
    let hear = move |push: PushInfo| {
        closed.fetch_or(push.kind == PushKind::Disconnection, Ordering::Relaxed);
        Ok::<(), ()>(())
    };
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_push_sender(hear);
    let connected = client.get_multiplexed_async_connection_with_config(&config).await;
    connected.map_err(|error| of_connection(&error))
}

/// Refuses a server that cannot decide; else what an operator should know of it.
fn read_info(info: Value) -> Result<Vec<String>, StoreError> {
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
    if field("loading").is_some_and(|loading| loading != "0") {
        return Err(StoreError::failed(Failure::Loading, "it is loading its data"));
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
    Ok(warnings)
}

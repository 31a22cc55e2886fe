//! How to connect to a server: at its address or by asking the sentinels, and what is checked first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, Value};
use tokio::time::timeout;
use waterclock::{Failure, StoreError};

use super::connection_error;
use crate::address::{Access, address_of};

/// The oldest major version that supports script flags.
const OLDEST: u32 = 7;
/// How long one sentinel may take to answer before the next is asked.
const EACH_SENTINEL: Duration = Duration::from_millis(100);

/// How to find a server.
#[derive(Clone, Debug)]
pub(crate) enum Dialer {
    /// At one address.
    Fixed(Box<Client>),
    /// The primary, which the sentinels know.
    Sentinels(Box<Sentinels>),
}

/// A connection that knows whether it was closed.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) redis: MultiplexedConnection,
    closed: Arc<AtomicBool>,
}

impl Connection {
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }
}

impl Dialer {
    /// A new connection to a primary that can run the scripts, and warnings for the operator.
    pub(crate) async fn dial(&self) -> Result<(Connection, Vec<String>), StoreError> {
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
        let warnings = read_info(info.map_err(|error| connection_error(&error))?)?;
        Ok((Connection { redis: connection, closed }, warnings))
    }
}

/// Connects without a timeout of its own: every call has a deadline.
pub(crate) async fn open(client: &Client) -> Result<MultiplexedConnection, StoreError> {
    watched(client, &Arc::default()).await
}

/// The same; `closed` becomes true when the connection is closed.
async fn watched(
    client: &Client,
    closed: &Arc<AtomicBool>,
) -> Result<MultiplexedConnection, StoreError> {
    let closed = Arc::clone(closed);
    let note = move |push: PushInfo| {
        closed.fetch_or(push.kind == PushKind::Disconnection, Ordering::Relaxed);
        Ok::<(), ()>(())
    };
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_push_sender(note);
    let connected = client.get_multiplexed_async_connection_with_config(&config).await;
    connected.map_err(|error| connection_error(&error))
}

/// Fails if the server cannot run the scripts; otherwise returns warnings for the operator.
fn read_info(info: Value) -> Result<Vec<String>, StoreError> {
    let info: String = redis::from_redis_value(info)
        .map_err(|_| StoreError::failed(Failure::BadReply, "unexpected reply to INFO"))?;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    let version = field("redis_version").unwrap_or_default();
    let major: u32 = version.split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    if major < OLDEST {
        let reason = format!("the server is version `{version}`; scripts need {OLDEST}.0 or newer");
        return Err(StoreError::failed(Failure::Version, reason));
    }
    if field("loading").is_some_and(|loading| loading != "0") {
        return Err(StoreError::failed(Failure::Loading, "the server is loading its data"));
    }
    if field("role").is_some_and(|role| role != "master") {
        return Err(StoreError::failed(
            Failure::ReadOnly,
            "the server is a replica, not a primary",
        ));
    }
    let mut warnings = Vec::new();
    if let Some(policy) = field("maxmemory_policy").filter(|policy| policy.starts_with("allkeys")) {
        warnings.push(format!(
            "maxmemory-policy is {policy}: the server may evict records that are still in use, and a client \
             whose record is evicted gets its whole limit again; use noeviction or volatile-ttl"
        ));
    }
    Ok(warnings)
}

/// The sentinels of a service.
#[derive(Clone, Debug)]
pub(crate) struct Sentinels {
    pub(crate) hosts: Vec<String>,
    pub(crate) service: String,
    pub(crate) access: Access,
}

impl Sentinels {
    /// A client of the primary, by the first sentinel that knows.
    async fn primary(&self) -> Result<Client, StoreError> {
        let mut last = StoreError::failed(Failure::Unreachable, "no sentinel answers");
        for host in &self.hosts {
            match timeout(EACH_SENTINEL, self.ask(host)).await {
                Ok(Ok(address)) => return self.access.client(&address),
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }

    async fn ask(&self, host: &str) -> Result<String, StoreError> {
        let mut connection = open(&self.access.sentinel(host)?).await?;
        let answer = redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(&self.service)
            .query_async::<Option<(String, u16)>>(&mut connection)
            .await;
        match answer {
            Ok(Some((host, port))) => Ok(address_of(&host, port)),
            Ok(None) => {
                let reason = format!("the sentinel at {host} has no service `{}`", self.service);
                Err(StoreError::failed(Failure::Unreachable, reason))
            }
            Err(error) => Err(StoreError::failed(Failure::Unreachable, error)),
        }
    }
}

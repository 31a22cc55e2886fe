//! How to connect to a server: at its address or by asking the sentinels, and what is checked first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ErrorKind, ProtocolVersion, PushInfo, PushKind, RedisError,
    RedisResult, Value,
};
use waterclock::StoreError;

use super::sentinels::Sentinels;
use super::{LinkSettings, capability, connection_error};

/// How to find a server.
#[derive(Clone, Debug)]
pub(crate) enum Dialer {
    /// At one address.
    Fixed(Box<Client>),
    /// The primary, which the sentinels know.
    Sentinels(Arc<Sentinels>),
}

/// A connection that knows whether it was closed.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) redis: MultiplexedConnection,
    /// The address that the sentinels named.
    pub(super) primary: Option<Arc<str>>,
    closed: Arc<AtomicBool>,
}

impl Connection {
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Relaxed)
    }
}

impl Dialer {
    /// A new connection to a primary that can run the scripts, and warnings for the operator.
    pub(super) async fn dial(
        &self,
        settings: &LinkSettings,
    ) -> Result<(Connection, Vec<String>), StoreError> {
        let (found, primary);
        let client = match self {
            Self::Fixed(client) => {
                primary = None;
                client
            }
            Self::Sentinels(sentinels) => {
                let named = sentinels.primary().await?;
                found = sentinels.client(&named)?;
                primary = Some(named);
                &found
            }
        };
        let closed = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&closed);
        let connected = open(client, move |push| {
            note.fetch_or(push.kind == PushKind::Disconnection, Ordering::Relaxed);
        });
        let mut redis = connected.await.map_err(|error| connection_error(&error))?;
        let mut questions = redis::pipe();
        questions.add_command(capability::question(settings)).cmd("INFO");
        let answers = redis.send_packed_commands(&questions, 0, 2).await;
        let answers = answers.map_err(|error| connection_error(&error))?;
        let [capable, info] = &*answers else { return Err(capability::bad_reply()) };
        capability::judge(capable, settings)?;
        let warnings = read_info(info)?;
        Ok((Connection { redis, primary, closed }, warnings))
    }
}

/// Connects without a timeout of its own: every call has a deadline. `heard` is called for whatever the server sends
/// unasked, and when the connection is closed; but not by a server that only speaks the older protocol.
pub(crate) async fn open(
    client: &Client,
    heard: impl Fn(&PushInfo) + Clone + Send + Sync + 'static,
) -> RedisResult<MultiplexedConnection> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    #[cfg(feature = "simulation")]
    if let Some(connected) = super::simulated::connect(client, &config, &heard).await {
        return connected;
    }
    let listening = config.clone().set_push_sender(move |push| {
        heard(&push);
        Ok::<(), ()>(())
    });
    match client.get_multiplexed_async_connection_with_config(&listening).await {
        Err(error) if refuses_hello(&error, client) => {
            let info = client.get_connection_info().clone();
            let older = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
            let client = Client::open(info.set_redis_settings(older))?;
            client.get_multiplexed_async_connection_with_config(&config).await
        }
        connected => connected,
    }
}

/// Whether a server may let us in without `HELLO`.
fn refuses_hello(error: &RedisError, client: &Client) -> bool {
    match (error.kind(), error.code()) {
        (_, Some("WRONGPASS" | "LOADING")) => false,
        // With a password in it, `HELLO` was not understood.
        (_, Some("NOAUTH")) => client.get_connection_info().redis_settings().password().is_some(),
        (kind, _) => matches!(
            kind,
            ErrorKind::RESP3NotSupported | ErrorKind::Extension | ErrorKind::Server(_)
        ),
    }
}

/// Warnings for the operator, from a server that permits `INFO`. A replica that accepts writes is refused, too.
fn read_info(info: &Value) -> Result<Vec<String>, StoreError> {
    let Ok(info) = redis::from_redis_value_ref::<String>(info) else { return Ok(Vec::new()) };
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    };
    if field("role").is_some_and(|role| role != "master") {
        return Err(capability::replica());
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

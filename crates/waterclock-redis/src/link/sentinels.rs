//! The sentinels of a service: which server is the primary, and when that changes.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Client, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use waterclock::{Failure, StoreError};

use super::dial::open;
use super::error::server_error;
use super::{Link, connection_error};
use crate::address::{Access, address_of};

/// How long the sentinels may take to answer.
const EACH: Duration = Duration::from_millis(150);
/// How often they are asked, at least. They tell of a failover themselves, but a subscription can be lost unnoticed.
const POLL: Duration = Duration::from_secs(1);
/// … and while none of them answers.
const LONGEST_POLL: Duration = Duration::from_secs(4);
/// Where they tell.
const CHANNEL: &str = "+switch-master";

/// The sentinels of a service.
pub(crate) struct Sentinels {
    hosts: Vec<String>,
    service: String,
    access: Access,
    connections: Mutex<HashMap<String, Listening>>,
    /// The newest primary they ever named.
    known: Mutex<Option<Primary>>,
    /// One of them told of a failover.
    told: Arc<Notify>,
}

/// A connection to a sentinel.
#[derive(Clone)]
struct Listening {
    redis: MultiplexedConnection,
    is_subscribed: bool,
}

/// A primary, and which of all configurations named it: each failover makes a new one, with a higher number.
#[derive(Clone)]
struct Primary {
    epoch: u64,
    address: Arc<str>,
}

impl Sentinels {
    pub(crate) fn new(hosts: Vec<String>, service: String, access: Access) -> Self {
        let (connections, known, told) = Default::default();
        Self { hosts, service, access, connections, known, told }
    }

    pub(super) fn client(&self, address: &str) -> Result<Client, StoreError> {
        self.access.client(address)
    }

    /// The primary's address. If sentinels differ, the newest configuration is right.
    pub(super) async fn primary(self: &Arc<Self>) -> Result<Arc<str>, StoreError> {
        let mut asked = JoinSet::new();
        for host in &self.hosts {
            let (this, host) = (Arc::clone(self), host.clone());
            asked.spawn(async move {
                let answer = timeout(EACH, this.ask(&host)).await;
                if !matches!(answer, Ok(Ok(_))) {
                    this.connections.lock().remove(&host);
                }
                answer.ok()
            });
        }
        let (mut named, mut last) = (Vec::new(), None);
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Some(Ok(primary))) => named.push(primary),
                Ok(Some(Err(error))) => last = Some(error),
                Ok(None) | Err(_) => {}
            }
        }
        let none = || StoreError::failed(Failure::Unreachable, "no sentinel answers");
        self.newest(named).ok_or_else(|| last.unwrap_or_else(none))
    }

    fn newest(&self, named: Vec<Primary>) -> Option<Arc<str>> {
        let is_majority = 2 * named.len() > self.hosts.len();
        let newest = named.into_iter().max_by_key(|primary| primary.epoch)?;
        let mut known = self.known.lock();
        match &mut *known {
            // A few sentinels may be cut off, and not know of the last failover.
            Some(known) if newest.epoch < known.epoch && !is_majority => {}
            known => *known = Some(newest),
        }
        known.as_ref().map(|known| Arc::clone(&known.address))
    }

    async fn ask(&self, host: &str) -> Result<Primary, StoreError> {
        let mut redis = self.connected(host).await?;
        let mut questions = redis::pipe();
        questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service);
        questions.cmd("SENTINEL").arg("MASTER").arg(&self.service);
        let answers = redis.send_packed_commands(&questions, 0, 2).await;
        let answers = answers.map_err(|error| connection_error(&error))?;
        let [address, details] = <[Value; 2]>::try_from(answers).unwrap_or_default();
        let (address, port) = match address {
            Value::ServerError(error) => return Err(server_error(&error).into_store_error()),
            Value::Nil => {
                let reason = format!("the sentinel at {host} has no service `{}`", self.service);
                return Err(StoreError::failed(Failure::Unreachable, reason));
            }
            address => redis::from_redis_value::<(String, u16)>(address)
                .map_err(|error| connection_error(&error.into()))?,
        };
        // A sentinel that does not permit to ask for it counts as the oldest.
        let details = redis::from_redis_value::<HashMap<String, String>>(details);
        let epoch = details.ok().and_then(|details| details.get("config-epoch")?.parse().ok());
        Ok(Primary { epoch: epoch.unwrap_or(0), address: address_of(&address, port).into() })
    }

    async fn connected(&self, host: &str) -> Result<MultiplexedConnection, StoreError> {
        if let Some(known) = self.connections.lock().get(host) {
            return Ok(known.redis.clone());
        }
        let mut opened = self.open(&self.access.sentinel(host)?).await;
        if matches!(&opened, Err(error) if error.code() == Some("NOAUTH")) {
            opened = self.open(&self.access.sentinel_with_login(host)?).await;
        }
        let redis = opened.map_err(|error| connection_error(&error))?;
        let listening = Listening { redis: redis.clone(), is_subscribed: false };
        self.connections.lock().insert(host.to_owned(), listening);
        Ok(redis)
    }

    async fn open(&self, sentinel: &Client) -> RedisResult<MultiplexedConnection> {
        let told = Arc::clone(&self.told);
        let heard = move |push: &PushInfo| {
            if push.kind == PushKind::Message {
                told.notify_one();
            }
        };
        open(sentinel, heard).await
    }

    /// Subscribes to what tells of failovers, where that is not done yet. Without it they are polled.
    async fn subscribe(&self) {
        for host in &self.hosts {
            let Some(mut listening) = self.connections.lock().get(host).cloned() else { continue };
            if listening.is_subscribed {
                continue;
            }
            // One that refuses is not asked again; one that is silent gets a new connection.
            let answer = timeout(EACH, listening.redis.subscribe(CHANNEL)).await;
            listening.is_subscribed = true;
            let mut connections = self.connections.lock();
            match answer {
                Ok(_) => connections.insert(host.clone(), listening),
                Err(_) => connections.remove(host),
            };
        }
    }
}

/// Keeps a link connected to the primary and to no other server, until the link is dropped.
pub(super) async fn follow(link: Weak<Link>, sentinels: Arc<Sentinels>) {
    let mut longest = POLL;
    loop {
        sentinels.subscribe().await;
        // Jitter: not all nodes ask at the same time.
        let pause = longest.mul_f64(0.5 + fastrand::f64() / 2.0);
        _ = timeout(pause, sentinels.told.notified()).await;
        let primary = sentinels.primary().await;
        let Some(link) = link.upgrade() else { return };
        match primary {
            Ok(primary) => {
                longest = POLL;
                link.keep_to(&primary).await;
            }
            Err(_) => longest = (2 * longest).min(LONGEST_POLL),
        }
    }
}

impl std::fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Sentinels");
        shown.field("hosts", &self.hosts).field("service", &self.service).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Address, Kind};

    /// Of three sentinels some answer, each with an epoch and an address.
    #[test]
    fn the_newest_configuration_is_right_and_a_minority_cannot_undo_it() {
        let address = Address::parse("redis-sentinel://a:1,b:2,c:3/main", None).unwrap();
        let Kind::Sentinel { service } = address.kind else { panic!("{:?}", address.kind) };
        let sentinels = Sentinels::new(address.hosts, service, address.access);
        let newest = |named: &[(u64, &str)]| {
            let primary =
                |&(epoch, address): &(u64, &str)| Primary { epoch, address: address.into() };
            sentinels.newest(named.iter().map(primary).collect())
        };
        assert_eq!(newest(&[]), None);
        assert_eq!(newest(&[(1, "old")]).as_deref(), Some("old"));
        assert_eq!(newest(&[(1, "old"), (2, "new"), (1, "old")]).as_deref(), Some("new"));
        assert_eq!(newest(&[(1, "old")]).as_deref(), Some("new"));
        assert_eq!(newest(&[]), None);
        assert_eq!(newest(&[(3, "newer")]).as_deref(), Some("newer"));
        // All sentinels were set up anew.
        assert_eq!(newest(&[(0, "first"), (0, "first")]).as_deref(), Some("first"));
    }
}

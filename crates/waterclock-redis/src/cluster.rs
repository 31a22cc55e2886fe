//! A cluster: which primary owns which slot, as far as is known.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use waterclock::{Failure, StoreError};

use crate::address::{Access, address_of};
use crate::keyspace::SLOTS;
use crate::link::{Dialer, Link, LinkSettings, connection_error, open};

/// How long one node may take to send the map.
const EACH: Duration = Duration::from_millis(200);
/// How long between two refreshes, at least.
const REST: Duration = Duration::from_millis(50);

pub(crate) struct Cluster {
    seeds: Vec<String>,
    access: Access,
    settings: LinkSettings,
    map: Mutex<Map>,
    /// Held while the map is refreshed.
    refresh: tokio::sync::Mutex<()>,
    is_refreshing: AtomicBool,
    refreshed: Notify,
}

#[derive(Default)]
struct Map {
    links: HashMap<String, Arc<Link>>,
    /// The owner of each slot; empty before the first refresh.
    owners: Vec<Option<Arc<Link>>>,
}

impl Cluster {
    pub(crate) fn new(seeds: Vec<String>, access: Access, settings: LinkSettings) -> Self {
        Self {
            seeds,
            access,
            settings: LinkSettings { slotted: true, ..settings },
            map: Mutex::default(),
            refresh: tokio::sync::Mutex::default(),
            is_refreshing: AtomicBool::new(false),
            refreshed: Notify::new(),
        }
    }

    /// The link to a node, by its address.
    pub(crate) fn link(&self, host: &str) -> Result<Arc<Link>, StoreError> {
        if let Some(link) = self.map.lock().links.get(host) {
            return Ok(Arc::clone(link));
        }
        let client = self.access.client(host).map_err(|error| {
            StoreError::failed(Failure::Unreachable, format!("node `{host}`: {error}"))
        })?;
        let dialer = Dialer::Fixed(Box::new(client));
        let link = Link::new(dialer, self.settings.clone());
        Ok(Arc::clone(self.map.lock().links.entry(host.to_owned()).or_insert(link)))
    }

    pub(crate) fn known_owner(&self, slot: u16) -> Option<Arc<Link>> {
        self.map.lock().owners.get(usize::from(slot)).cloned().flatten()
    }

    /// The owner of a slot; waits for a refresh until `by` if it is not known.
    pub(crate) async fn owner(
        self: &Arc<Self>,
        slot: u16,
        by: Instant,
    ) -> Result<Arc<Link>, StoreError> {
        if let Some(link) = self.known_owner(slot) {
            return Ok(link);
        }
        let refreshed = self.refreshed.notified();
        self.refresh_soon();
        // However long a refresh takes: it goes on when its callers have left.
        _ = timeout_at(by, refreshed).await;
        let unowned = || StoreError::failed(Failure::Unreachable, "no node owns the slot");
        self.known_owner(slot).ok_or_else(unowned)
    }

    /// A slot was found on another node; others have likely moved with it.
    pub(crate) fn moved(self: &Arc<Self>, slot: u16, host: &str) {
        if let Ok(link) = self.link(host)
            && let Some(owner) = self.map.lock().owners.get_mut(usize::from(slot))
        {
            *owner = Some(link);
        }
        self.refresh_soon();
    }

    /// Refreshes the map in the background, unless that is happening already.
    pub(crate) fn refresh_soon(self: &Arc<Self>) {
        if !self.is_refreshing.swap(true, Ordering::Relaxed) {
            let cluster = Arc::clone(self);
            tokio::spawn(async move {
                _ = cluster.refresh().await;
                cluster.refreshed.notify_waiters();
                sleep(REST).await;
                cluster.is_refreshing.store(false, Ordering::Relaxed);
            });
        }
    }

    /// Every primary.
    pub(crate) async fn links(&self) -> Result<Vec<Arc<Link>>, StoreError> {
        if self.map.lock().owners.is_empty() {
            self.refresh().await?;
        }
        let mut links: Vec<Arc<Link>> = Vec::new();
        for owner in self.map.lock().owners.iter().flatten() {
            if !links.iter().any(|link| Arc::ptr_eq(link, owner)) {
                links.push(Arc::clone(owner));
            }
        }
        Ok(links)
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.map.lock().owners.iter().flatten().any(|link| link.is_down())
    }

    /// Asks one node after the other for the map.
    async fn refresh(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.refresh.lock().await;
        let mut hosts: Vec<String> = self.map.lock().links.keys().cloned().collect();
        hosts.extend(
            self.seeds.iter().filter(|seed| !hosts.contains(seed)).cloned().collect::<Vec<_>>(),
        );
        // Not every node asks the same one first; sorted before, so that a seed decides. Nodes whose breaker is open last.
        hosts.sort();
        fastrand::shuffle(&mut hosts);
        hosts.sort_by_key(|host| self.link(host).is_ok_and(|link| link.is_down()));
        let mut last = StoreError::failed(Failure::Unreachable, "no node of the cluster answers");
        for host in hosts {
            match timeout(EACH, self.slots(&host)).await {
                Ok(Ok(ranges)) => match self.set_owners(&host, &ranges) {
                    Ok(()) => return Ok(()),
                    Err(error) => last = error,
                },
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }

    async fn slots(&self, host: &str) -> Result<Vec<Value>, StoreError> {
        let client = self.access.client(host)?;
        let slots = async {
            let mut connection = open(&client, |_| ()).await?;
            redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await
        };
        slots.await.map_err(|error| connection_error(&error))
    }

    /// Takes the map from the reply to `CLUSTER SLOTS`.
    fn set_owners(&self, asked: &str, ranges: &[Value]) -> Result<(), StoreError> {
        if ranges.is_empty() {
            return Err(StoreError::failed(
                Failure::Unreachable,
                "CLUSTER SLOTS is empty: the node has not joined a cluster, or no slots are assigned",
            ));
        }
        let mut owners = vec![None; SLOTS.into()];
        for range in ranges {
            let (first, last, host) = read_range(asked, range).ok_or_else(|| {
                StoreError::failed(Failure::BadReply, "unexpected reply to CLUSTER SLOTS")
            })?;
            let link = self.link(&host)?;
            owners[first..=last].fill(Some(link));
        }
        let mut map = self.map.lock();
        let used: Vec<Arc<Link>> = owners.iter().flatten().cloned().collect();
        map.owners = owners;
        // Nodes that own nothing are dropped with their connections.
        map.links.retain(|_, link| used.iter().any(|other| Arc::ptr_eq(link, other)));
        Ok(())
    }
}

/// First slot, last slot and the address of their primary.
pub(crate) fn read_range(asked: &str, range: &Value) -> Option<(usize, usize, String)> {
    let Value::Array(fields) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &**fields else {
        return None;
    };
    let Some(Value::Int(port)) = primary.get(1) else { return None };
    let host = match primary.first()? {
        Value::BulkString(host) if !host.is_empty() => String::from_utf8(host.clone()).ok()?,
        // The node does not know its own name: it is the one that was asked.
        _ => asked.rsplit_once(':')?.0.to_owned(),
    };
    let slot = |n: &i64| usize::try_from(*n).ok().filter(|n| *n < SLOTS.into());
    let (first, last) = (slot(first)?, slot(last)?);
    (first <= last).then(|| (first, last, address_of(&host, port)))
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

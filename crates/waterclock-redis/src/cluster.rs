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

use crate::address::{Doors, address_of};
use crate::keyspace::SLOTS;
use crate::link::{Dialer, Link};

/// How long one node may take to tell the map.
const EACH: Duration = Duration::from_millis(200);
/// How long between two looks at the map, at least.
const REST: Duration = Duration::from_millis(50);

pub(crate) struct Cluster {
    seeds: Vec<String>,
    doors: Doors,
    deadline: Duration,
    map: Mutex<Map>,
    /// One look at a time.
    look: tokio::sync::Mutex<()>,
    looking: AtomicBool,
    looked: Notify,
}

#[derive(Default)]
struct Map {
    links: HashMap<String, Arc<Link>>,
    /// The owner of each slot; empty before the first look.
    owners: Vec<Option<Arc<Link>>>,
}

impl Cluster {
    pub(crate) fn new(seeds: Vec<String>, doors: Doors, deadline: Duration) -> Self {
        let (map, look, looking) = (Mutex::default(), tokio::sync::Mutex::default(), false.into());
        Self { seeds, doors, deadline, map, look, looking, looked: Notify::new() }
    }

    /// The link to a node, by its address.
    pub(crate) fn link(&self, host: &str) -> Result<Arc<Link>, StoreError> {
        if let Some(link) = self.map.lock().links.get(host) {
            return Ok(Arc::clone(link));
        }
        let client = self.doors.client(host).map_err(|error| {
            StoreError::failed(Failure::Unreachable, format!("a node at `{host}`: {error}"))
        })?;
        let dialer = Dialer::Fixed(Box::new(client));
        let link = Link::new(dialer, true, self.deadline);
        Ok(Arc::clone(self.map.lock().links.entry(host.to_owned()).or_insert(link)))
    }

    pub(crate) fn known_owner(&self, slot: u16) -> Option<Arc<Link>> {
        self.map.lock().owners.get(usize::from(slot)).cloned().flatten()
    }

    /// The owner of a slot, found out by `by` if it is not known.
    pub(crate) async fn owner(
        self: &Arc<Self>,
        slot: u16,
        by: Instant,
    ) -> Result<Arc<Link>, StoreError> {
        if let Some(link) = self.known_owner(slot) {
            return Ok(link);
        }
        let looked = self.looked.notified();
        self.look_again();
        // However long a look takes: it goes on when its callers have left.
        _ = timeout_at(by, looked).await;
        let nobody = || StoreError::failed(Failure::Unreachable, "nobody owns its slot");
        self.known_owner(slot).ok_or_else(nobody)
    }

    /// A slot was found elsewhere; others have likely moved with it.
    pub(crate) fn moved(self: &Arc<Self>, slot: u16, host: &str) {
        if let Ok(link) = self.link(host)
            && let Some(owner) = self.map.lock().owners.get_mut(usize::from(slot))
        {
            *owner = Some(link);
        }
        self.look_again();
    }

    /// Looks at the map again soon, unless somebody does already.
    pub(crate) fn look_again(self: &Arc<Self>) {
        if !self.looking.swap(true, Ordering::Relaxed) {
            let cluster = Arc::clone(self);
            tokio::spawn(async move {
                _ = cluster.look().await;
                cluster.looked.notify_waiters();
                sleep(REST).await;
                cluster.looking.store(false, Ordering::Relaxed);
            });
        }
    }

    /// Every primary.
    pub(crate) async fn links(&self) -> Result<Vec<Arc<Link>>, StoreError> {
        if self.map.lock().owners.is_empty() {
            self.look().await?;
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

    /// Asks one node after the other who owns what.
    async fn look(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.look.lock().await;
        let mut hosts: Vec<String> = self.map.lock().links.keys().cloned().collect();
        hosts.extend(
            self.seeds.iter().filter(|seed| !hosts.contains(seed)).cloned().collect::<Vec<_>>(),
        );
        // Those that answer first: a node that is given up knows least.
        hosts.sort_by_key(|host| self.link(host).is_ok_and(|link| link.is_down()));
        let mut last = StoreError::failed(Failure::Unreachable, "no node of the cluster answers");
        for host in hosts {
            match timeout(EACH, self.ask(&host)).await {
                Ok(Ok(ranges)) => match self.draw(&host, &ranges) {
                    Ok(()) => return Ok(()),
                    Err(error) => last = error,
                },
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }

    async fn ask(&self, host: &str) -> Result<Vec<Value>, StoreError> {
        let mut connection = crate::link::open(&self.doors.client(host)?).await?;
        let slots = redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await;
        slots.map_err(|error| StoreError::failed(Failure::Unreachable, error))
    }

    /// Draws the map from the answer of `CLUSTER SLOTS`.
    fn draw(&self, asked: &str, ranges: &[Value]) -> Result<(), StoreError> {
        if ranges.is_empty() {
            return Err(StoreError::failed(Failure::Unreachable, "it knows of no slots"));
        }
        let mut owners = vec![None; SLOTS.into()];
        for range in ranges {
            let (first, last, host) = read_range(asked, range).ok_or_else(|| {
                StoreError::failed(Failure::BadReply, "CLUSTER SLOTS answered something else")
            })?;
            let link = self.link(&host)?;
            owners[first..=last].fill(Some(link));
        }
        let mut map = self.map.lock();
        let used: Vec<Arc<Link>> = owners.iter().flatten().cloned().collect();
        map.owners = owners;
        // Nodes that own nothing are forgotten with their connections.
        map.links.retain(|_, link| used.iter().any(|other| Arc::ptr_eq(link, other)));
        Ok(())
    }
}

/// First slot, last slot and the address of their primary.
fn read_range(asked: &str, range: &Value) -> Option<(usize, usize, String)> {
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

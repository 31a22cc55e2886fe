//! Which server to ask: the only one, or the one that owns the slot.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep};
use waterclock::{Failure, StoreError, Timestamp};

use crate::address::{Address, Kind};
use crate::cluster::Cluster;
use crate::link::{Ask, Asking, Dialer, Link, Trouble};
use crate::sentinel::Sentinels;

/// Redirections a call follows before something is wrong.
const HOPS: u32 = 8;
/// How long to wait before asking again a server that did nothing.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone, Debug)]
pub(crate) enum Route {
    One(Arc<Link>),
    Cluster(Arc<Cluster>),
}

impl Route {
    pub(crate) fn new(address: Address, deadline: Duration) -> Result<Self, StoreError> {
        let Address { kind, hosts, doors } = address;
        let dialer = match kind {
            Kind::Cluster => {
                return Ok(Self::Cluster(Arc::new(Cluster::new(hosts, doors, deadline))));
            }
            Kind::One => Dialer::Fixed(Box::new(doors.client(&hosts[0])?)),
            Kind::Sentinel { service } => {
                Dialer::Sentinels(Box::new(Sentinels { hosts, service, doors }))
            }
        };
        Ok(Self::One(Link::new(dialer, false, deadline)))
    }

    /// Asks whoever owns the slot, and again where the reply proves that nothing was done.
    pub(crate) async fn ask(
        &self,
        slot: u16,
        ask: Ask,
        by: Instant,
    ) -> Result<Vec<Value>, StoreError> {
        let (mut asking, mut apart) = (false, false);
        let mut redirected: Option<String> = None;
        for _ in 0..HOPS {
            let link = match (self, redirected.take()) {
                (Self::One(link), _) => Arc::clone(link),
                (Self::Cluster(cluster), Some(host)) => cluster.link(&host)?,
                (Self::Cluster(cluster), None) => cluster.owner(slot, by).await?,
            };
            let trouble = match link.ask(ask.clone(), Asking { asking, apart }, by).await {
                Ok(values) => return Ok(values),
                Err(trouble) => trouble,
            };
            asking = false;
            match (self, trouble) {
                (Self::Cluster(cluster), Trouble::Moved(host)) => {
                    cluster.moved(slot, &host);
                    redirected = Some(host);
                }
                (Self::Cluster(_), Trouble::Ask(host)) => {
                    (redirected, asking) = (Some(host), true);
                }
                (_, Trouble::Again(kind, reason)) => {
                    if Instant::now() + PAUSE >= by {
                        return Err(StoreError::failed(kind, reason));
                    }
                    if let Self::Cluster(cluster) = self {
                        cluster.look_again();
                    }
                    sleep(PAUSE).await;
                }
                (_, Trouble::Apart(_)) if Instant::now() + PAUSE < by => {
                    apart = true;
                    sleep(PAUSE).await;
                }
                (_, trouble) => {
                    if let Self::Cluster(cluster) = self {
                        cluster.look_again();
                    }
                    return Err(trouble.into_store_error());
                }
            }
        }
        Err(StoreError::failed(Failure::Unreachable, "too many redirections"))
    }

    /// Whether keys of different slots may meet in one call.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// About what the clock of a slot's owner says now.
    pub(crate) fn expected_now(&self, slot: u16) -> Timestamp {
        match self {
            Self::One(link) => link.expected_now(),
            Self::Cluster(cluster) => {
                cluster.known_owner(slot).map_or(Timestamp::ZERO, |link| link.expected_now())
            }
        }
    }

    /// The owner of a slot answered something that is no answer.
    pub(crate) async fn distrust(&self, slot: u16) {
        let owner = match self {
            Self::One(link) => Some(Arc::clone(link)),
            Self::Cluster(cluster) => cluster.known_owner(slot),
        };
        if let Some(link) = owner {
            link.distrust().await;
        }
    }

    /// What the clock of a slot's owner said just now.
    pub(crate) fn heard_clock(&self, slot: u16, now: Timestamp) {
        match self {
            Self::One(link) => link.heard_clock(now),
            Self::Cluster(cluster) => {
                cluster.known_owner(slot).iter().for_each(|link| link.heard_clock(now));
            }
        }
    }

    /// Every server that holds records.
    pub(crate) async fn links(&self) -> Result<Vec<Arc<Link>>, StoreError> {
        match self {
            Self::One(link) => Ok(vec![Arc::clone(link)]),
            Self::Cluster(cluster) => cluster.links().await,
        }
    }

    /// Whether any server is given up at the moment.
    pub(crate) fn is_degraded(&self) -> bool {
        match self {
            Self::One(link) => link.is_down(),
            Self::Cluster(cluster) => cluster.is_degraded(),
        }
    }
}

//! Which server to call: the only one, or the one that owns the slot.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::{Instant, sleep};
use waterclock::{Failure, StoreError, Timestamp};

use crate::address::{Address, Kind};
use crate::cluster::Cluster;
use crate::link::{CallError, Delivery, Dialer, Link, LinkSettings, Request, Sentinels};

/// Redirections a call follows before something is wrong.
const HOPS: u32 = 8;
/// How long to wait before the next call to a server that did nothing.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone, Debug)]
pub(crate) enum Route {
    One(Arc<Link>),
    Cluster(Arc<Cluster>),
}

impl Route {
    pub(crate) fn new(address: Address, settings: LinkSettings) -> Result<Self, StoreError> {
        let Address { kind, hosts, access } = address;
        let dialer = match kind {
            Kind::Cluster => {
                return Ok(Self::Cluster(Arc::new(Cluster::new(hosts, access, settings))));
            }
            Kind::One => Dialer::Fixed(Box::new(access.client(&hosts[0])?)),
            Kind::Sentinel { service } => {
                Dialer::Sentinels(Arc::new(Sentinels::new(hosts, service, access)))
            }
        };
        Ok(Self::One(Link::new(dialer, settings)))
    }

    /// Sends a request to the slot's owner, and again where the reply proves that nothing was done.
    pub(crate) async fn send(
        &self,
        slot: u16,
        request: Request,
        by: Instant,
    ) -> Result<Vec<Value>, StoreError> {
        self.try_to_send(slot, request, by).await.map_err(CallError::into_store_error)
    }

    /// The same, with an error that tells whether keys of the request are being moved.
    pub(crate) async fn try_to_send(
        &self,
        slot: u16,
        request: Request,
        by: Instant,
    ) -> Result<Vec<Value>, CallError> {
        let mut delivery = Delivery::default();
        let mut redirected: Option<String> = None;
        for _ in 0..HOPS {
            let link = match (self, redirected.take()) {
                (Self::One(link), _) => Arc::clone(link),
                (Self::Cluster(cluster), Some(host)) => {
                    cluster.link(&host).map_err(CallError::Store)?
                }
                (Self::Cluster(cluster), None) => {
                    cluster.owner(slot, by).await.map_err(CallError::Store)?
                }
            };
            let error = match link.send(&request, delivery, by).await {
                Ok(values) => return Ok(values),
                Err(error) => error,
            };
            delivery.asking = false;
            match (self, error) {
                (Self::Cluster(cluster), CallError::Moved(host)) => {
                    cluster.moved(slot, &host);
                    redirected = Some(host);
                }
                (Self::Cluster(_), CallError::Ask(host)) => {
                    (redirected, delivery.asking) = (Some(host), true);
                }
                (_, CallError::Again(kind, reason)) => {
                    if Instant::now() + PAUSE >= by {
                        return Err(CallError::Again(kind, reason));
                    }
                    if let Self::Cluster(cluster) = self {
                        cluster.refresh_soon();
                    }
                    sleep(PAUSE).await;
                }
                (_, CallError::Split(_))
                    if Instant::now() + PAUSE < by && !(delivery.alone && request.holds()) =>
                {
                    delivery.alone = true;
                    sleep(PAUSE).await;
                }
                (_, error) => {
                    if let Self::Cluster(cluster) = self {
                        cluster.refresh_soon();
                    }
                    return Err(error);
                }
            }
        }
        Err(CallError::failed(Failure::Unreachable, "too many redirections"))
    }

    /// Whether keys of different slots may be in one call.
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

    /// Closes the connection to a slot's owner, which sent something else than a reply.
    pub(crate) fn distrust(&self, slot: u16) {
        let owner = match self {
            Self::One(link) => Some(Arc::clone(link)),
            Self::Cluster(cluster) => cluster.known_owner(slot),
        };
        if let Some(link) = owner {
            link.distrust();
        }
    }

    /// Notes what the clock of a slot's owner says now.
    pub(crate) fn note_clock(&self, slot: u16, now: Timestamp) {
        match self {
            Self::One(link) => link.note_clock(now),
            Self::Cluster(cluster) => {
                cluster.known_owner(slot).iter().for_each(|link| link.note_clock(now));
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

    /// Whether the breaker of any server is open.
    pub(crate) fn is_degraded(&self) -> bool {
        match self {
            Self::One(link) => link.is_down(),
            Self::Cluster(cluster) => cluster.is_degraded(),
        }
    }
}

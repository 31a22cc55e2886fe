//! The buckets of one stream, by what its reports say.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tonic::Status;
use tracing::warn;
use waterclock::{Clock as _, Limit, Limiter, Timestamp};

use super::book::{Member, Outgoing, Outlet, framed};
use super::share::{Assignment, Usage};
use super::target::Target;
use super::{RENEW, SILENCE};
use crate::buffers::Hold;
use crate::connections::Guest;
use crate::engine::Outcome;
use crate::face::grpc::proto::rlqs::{BucketId, BucketQuotaUsage};
use crate::face::grpc::size::each_field;
use crate::observe::Face;
use crate::server::Server;

/// Buckets of one stream. More are refused: ids may come from clients of the proxy.
pub(super) const MAX_BUCKETS: usize = 10_000;
/// Reports that are taken before other requests of the server have their turn.
const AT_ONCE: usize = 256;
/// What a bucket takes beside its id, in bytes: its share, its pool and the task of that.
const BYTES_OF_BUCKET: usize = 1_536;

/// The buckets of one stream.
pub(super) struct Buckets {
    server: Arc<Server>,
    guest: Arc<Guest>,
    sender: mpsc::Sender<Outgoing>,
    domain: Option<String>,
    all: HashMap<Arc<BucketId>, Bucket, ahash::RandomState>,
    swept_at: Timestamp,
    warnings: Limiter,
}

/// One bucket.
struct Bucket {
    /// None where all or nothing is admitted by rule.
    member: Option<Member>,
    /// The assignment that does not depend on units, and when it was sent.
    blanket: Option<(Assignment, Timestamp)>,
    reported_at: Timestamp,
    _hold: Hold,
}

impl Bucket {
    /// Leaves its pool, for what applies whatever is spent: told again before it lapses.
    fn blanket(&mut self, now: Timestamp, told: Assignment) -> Option<Assignment> {
        self.member = None;
        let is_told =
            |(before, at): (Assignment, Timestamp)| before == told && now.since(at) < RENEW;
        if self.blanket.is_some_and(is_told) {
            return None;
        }
        self.blanket = Some((told, now));
        Some(told)
    }
}

impl Buckets {
    pub(super) fn new(
        server: &Arc<Server>,
        guest: &Arc<Guest>,
        sender: mpsc::Sender<Outgoing>,
    ) -> Buckets {
        Buckets {
            server: Arc::clone(server),
            guest: Arc::clone(guest),
            sender,
            domain: None,
            all: HashMap::default(),
            swept_at: server.engine.metrics().clock().now(),
            warnings: Limiter::new(Limit::per_minute(1)),
        }
    }

    /// Takes a message of reports. Buckets are decoded one by one: in memory they are larger than in the message.
    pub(super) async fn take_reports(&mut self, message: &[u8]) -> Result<(), Status> {
        const DOMAIN: u32 = 1;
        const USAGES: u32 = 2;
        let mut usages = Vec::new();
        let mut domain = None;
        let unreadable =
            || Status::invalid_argument("the message is not a RateLimitQuotaUsageReports");
        each_field(message, |number, bytes| {
            match (number, bytes) {
                (DOMAIN, bytes) => domain = Some(std::str::from_utf8(bytes?).ok()?.to_owned()),
                (USAGES, bytes) => usages.push(bytes?),
                _ => {}
            }
            Some(())
        })
        .ok_or_else(unreadable)?;
        if self.domain.is_none() {
            self.domain = domain.filter(|domain| !domain.is_empty());
        }
        if self.domain.is_none() {
            return Err(Status::invalid_argument("`domain` must not be empty"));
        }
        let now = self.server.engine.metrics().clock().now();
        for (at, usage) in usages.into_iter().enumerate() {
            if at % AT_ONCE == AT_ONCE - 1 {
                yield_now().await;
            }
            let usage = BucketQuotaUsage::decode(usage).map_err(|_| unreadable())?;
            let Some(id) = usage.bucket_id.filter(|id| !id.bucket.is_empty()) else { continue };
            let elapsed = usage.time_elapsed.and_then(|elapsed| elapsed.try_into().ok());
            let elapsed: Duration = elapsed.unwrap_or_default();
            let (allowed, denied) = (usage.num_requests_allowed, usage.num_requests_denied);
            let told = self.report(now, &id, Usage { elapsed, allowed, denied });
            if let Some(told) = told {
                self.server.engine.metrics().count_assignment(told.name());
                // Waits for a proxy that does not read, which then cannot report either.
                _ = self.sender.send((now, framed(&id, told))).await;
            }
        }
        self.sweep(now);
        Ok(())
    }

    /// Takes a report. Returns what the proxy is to be told whatever is spent; the pool of its budget tells the rest.
    fn report(&mut self, now: Timestamp, id: &BucketId, usage: Usage) -> Option<Assignment> {
        let plan = Arc::clone(&self.server.engine.plan());
        let domain = self.domain.as_deref().unwrap_or_default();
        let target = Target::of(&plan, domain, id);
        let (id, mut bucket) = match self.all.remove_entry(id) {
            Some(known) => known,
            None => match self.room_for(id) {
                Some(hold) => {
                    self.server.engine.metrics().rlqs_buckets.inc();
                    let bucket =
                        Bucket { member: None, blanket: None, reported_at: now, _hold: hold };
                    (Arc::new(id.clone()), bucket)
                }
                // Not remembered, and told again with each report.
                None if usage.allowed == 0 && usage.denied == 0 => {
                    return Some(Assignment::Abandon);
                }
                None => return Some(Assignment::DenyAll),
            },
        };
        bucket.reported_at = now;
        let told = match target {
            Target::Limited(spending) => {
                if let Some(policy) = spending.policy(&plan) {
                    let tally = policy.tally();
                    tally.count_many(Face::Grpc, Outcome::Allow, usage.allowed);
                    tally.count_many(Face::Grpc, Outcome::Deny, usage.denied);
                }
                bucket.blanket = None;
                let budget = spending.id();
                let is_known = bucket
                    .member
                    .as_ref()
                    .is_some_and(|member| member.is_of(&budget) && member.report(now, usage));
                if !is_known {
                    let outlet = Outlet { sender: self.sender.clone(), id: Arc::clone(&id) };
                    let quotas = self.server.quotas();
                    bucket.member = Some(quotas.join(&self.server, spending, outlet, usage));
                }
                None
            }
            Target::AllowAll => bucket.blanket(now, Assignment::AllowAll),
            Target::DenyAll(policy) => {
                if let Some(policy) = policy
                    && self.warnings.check().is_allowed()
                {
                    warn!(
                        "a proxy asks for quota of policy `{policy}`, which cannot be handed out beforehand \
                         (min-interval, even-slots, concurrency, error-rate or `min_interval`): all of it is refused"
                    );
                }
                bucket.blanket(now, Assignment::DenyAll)
            }
        };
        self.all.insert(id, bucket);
        told
    }

    /// Memory for one more bucket; `None` if there is none, or the stream has its part already.
    fn room_for(&self, id: &BucketId) -> Option<Hold> {
        if self.all.len() >= MAX_BUCKETS {
            return None;
        }
        let texts = id.bucket.iter().map(|(key, value)| 128 + 2 * (key.len() + value.len()));
        let bytes = BYTES_OF_BUCKET + texts.sum::<usize>();
        let mut hold = self.server.buffers().hold(Face::Grpc, self.guest.origin());
        hold.grow(bytes, true).then_some(hold)
    }

    /// Forgets buckets that are not reported any more.
    fn sweep(&mut self, now: Timestamp) {
        if now.since(self.swept_at) < SILENCE {
            return;
        }
        self.swept_at = now;
        let before = self.all.len();
        self.all.retain(|_, bucket| now.since(bucket.reported_at) < SILENCE);
        self.count_gone(before - self.all.len());
    }

    fn count_gone(&self, buckets: usize) {
        let gone = i64::try_from(buckets).unwrap_or(i64::MAX);
        self.server.engine.metrics().rlqs_buckets.dec_by(gone);
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        self.count_gone(self.all.len());
    }
}

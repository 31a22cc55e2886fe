//! A stream of quota, as a proxy has it.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use waterclock_server::envoy::rlqs::{
    Action, BlanketRule, BucketId, BucketQuotaUsage, RateLimitQuotaResponse,
    RateLimitQuotaServiceClient, RateLimitQuotaUsageReports, Strategy,
};

/// What a bucket is assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assigned {
    AllowAll,
    DenyAll,
    Units(u32),
    Abandoned,
}

pub(super) struct Proxy {
    reports: mpsc::Sender<RateLimitQuotaUsageReports>,
    responses: Streaming<RateLimitQuotaResponse>,
}

pub(super) fn bucket(entries: &[(&str, &str)]) -> BucketId {
    let entry = |(key, value): &(&str, &str)| ((*key).to_owned(), value.as_bytes().to_vec());
    BucketId { bucket: entries.iter().map(entry).collect() }
}

pub(super) fn usage(id: BucketId, elapsed: u64, allowed: u64, denied: u64) -> BucketQuotaUsage {
    BucketQuotaUsage {
        bucket_id: Some(id),
        time_elapsed: Some(Duration::from_secs(elapsed).try_into().unwrap()),
        num_requests_allowed: allowed,
        num_requests_denied: denied,
    }
}

impl Proxy {
    pub(super) async fn open(channel: Channel) -> Result<Proxy, Status> {
        let mut client = RateLimitQuotaServiceClient::new(channel);
        let (reports, outgoing) = mpsc::channel(16);
        let responses = client.stream_rate_limit_quotas(ReceiverStream::new(outgoing)).await?;
        Ok(Proxy { reports, responses: responses.into_inner() })
    }

    pub(super) async fn send(&mut self, usages: Vec<BucketQuotaUsage>) {
        self.send_to("d", usages).await;
    }

    pub(super) async fn send_to(&mut self, domain: &str, usages: Vec<BucketQuotaUsage>) {
        let domain = domain.to_owned();
        let reports = RateLimitQuotaUsageReports { domain, bucket_quota_usages: usages };
        self.reports.send(reports).await.unwrap();
    }

    /// The next response; an error is the end of the stream.
    pub(super) async fn next(&mut self) -> Result<(BucketId, Assigned), Status> {
        let next = timeout(Duration::from_secs(30), self.responses.next()).await.unwrap();
        let response = next.unwrap_or_else(|| Err(Status::ok("ended")))?;
        let actions = response.bucket_action;
        let id = actions[0].bucket_id.clone().unwrap();
        assert!(actions.iter().all(|action| action.bucket_id.as_ref() == Some(&id)));
        let mut assigned = Assigned::Abandoned;
        for action in actions {
            if let Action::QuotaAssignmentAction(action) = action.bucket_action.unwrap() {
                assert_eq!(action.assignment_time_to_live.unwrap().seconds, 10);
                assigned = match action.rate_limit_strategy.unwrap().strategy.unwrap() {
                    Strategy::TokenBucket(bucket) => {
                        assert_eq!(assigned, Assigned::DenyAll, "it begins full");
                        Assigned::Units(bucket.max_tokens)
                    }
                    Strategy::BlanketRule(rule) if rule == i32::from(BlanketRule::AllowAll) => {
                        Assigned::AllowAll
                    }
                    Strategy::BlanketRule(_) => Assigned::DenyAll,
                    Strategy::RequestsPerTimeUnit(_) => panic!("Envoy ignores it"),
                };
            }
        }
        Ok((id, assigned))
    }

    /// What a bucket gets that is reported for the first time.
    pub(super) async fn first(&mut self, entries: &[(&str, &str)]) -> Assigned {
        self.send(vec![usage(bucket(entries), 0, 1, 0)]).await;
        loop {
            let (id, assigned) = self.next().await.unwrap();
            // Others are renewed meanwhile.
            if id == bucket(entries) {
                return assigned;
            }
        }
    }
}

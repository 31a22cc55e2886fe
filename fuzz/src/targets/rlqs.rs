//! Envoy's quota service: reports of a proxy as raw bytes and made of them, on one stream.

use std::collections::BTreeMap;

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::Corpus;
use prost::Message;
use waterclock_server::envoy::rlqs::{
    BucketId, BucketQuotaUsage, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};
use waterclock_server::observe::Face;

use crate::server::{Scene, frame};

const METHOD: &str =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";

thread_local! {
    static SCENE: Scene = Scene::new(Face::Grpc);
}

pub fn run(data: &[u8]) -> Corpus {
    let Some((kind, bytes)) = data.split_first() else { return Corpus::Reject };
    let framed = match kind % 4 {
        // Framing and all.
        0 => bytes.to_vec(),
        1 => frame(bytes),
        _ => {
            let mut from = Unstructured::new(bytes);
            let mut framed = Vec::new();
            for _ in 0..3 {
                match reports(&mut from) {
                    Ok(reports) => framed.extend(frame(&reports.encode_to_vec())),
                    Err(_) => return Corpus::Reject,
                }
            }
            framed
        }
    };
    SCENE.with(|scene| {
        let answer = scene.runtime.block_on(scene.faces.grpc(METHOD, framed.clone()));
        scene.forget();
        let Some((answer, status)) = answer else { return };
        let mut rest = &answer[..];
        while let Some((head, after)) = rest.split_first_chunk::<5>() {
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let (message, after) = after.split_at(length);
            let response = RateLimitQuotaResponse::decode(message).expect("a response");
            for action in response.bucket_action {
                let id = action.bucket_id.expect("which bucket").bucket;
                let is_in =
                    |text: &[u8]| framed.windows(text.len().max(1)).any(|part| part == text);
                // Only what was reported is answered.
                assert!(id.iter().all(|(key, value)| {
                    (key.is_empty() || is_in(key.as_bytes())) && (value.is_empty() || is_in(value))
                }));
                assert!(!id.is_empty() && action.bucket_action.is_some());
            }
            rest = after;
        }
        assert!(rest.is_empty());
        assert!(![Some(2), Some(13), Some(15)].contains(&status), "{status:?}");
    });
    Corpus::Keep
}

fn reports(from: &mut Unstructured<'_>) -> Result<RateLimitQuotaUsageReports> {
    let mut usages = Vec::new();
    for _ in 0..from.int_in_range(0..=4)? {
        let mut bucket = BTreeMap::new();
        for _ in 0..from.int_in_range(0..=3)? {
            let key = *from.choose(&["user", "path", "tokens", "bot", "method", "tier", ""])?;
            let value = *from.choose(&["/api/x", "POST", "a", "b", ""])?;
            bucket.insert(key.to_owned(), value.as_bytes().to_vec());
        }
        usages.push(BucketQuotaUsage {
            bucket_id: Some(BucketId { bucket }),
            time_elapsed: match from.ratio(1, 2)? {
                true => Some(elapsed(from)?),
                false => None,
            },
            num_requests_allowed: number(from)?,
            num_requests_denied: number(from)?,
        });
    }
    let domain = *from.choose(&["d", "d", "other", ""])?;
    Ok(RateLimitQuotaUsageReports { domain: domain.to_owned(), bucket_quota_usages: usages })
}

fn number(from: &mut Unstructured<'_>) -> Result<u64> {
    match from.int_in_range(0..=3)? {
        0 => Ok(0),
        1 => from.arbitrary(),
        _ => from.int_in_range(0..=20),
    }
}

fn elapsed(from: &mut Unstructured<'_>) -> Result<prost_types::Duration> {
    let seconds = if from.ratio(1, 4)? { from.arbitrary()? } else { from.int_in_range(-1..=9)? };
    Ok(prost_types::Duration { seconds, nanos: from.int_in_range(-1..=1_000_000_000)? })
}

//! Messages of gRPC: Envoy's, Kuadrant's and our own service, raw bytes and requests made of them.

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::Corpus;
use prost::Message;
use waterclock_server::envoy::{
    Code, Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitResponse,
};
use waterclock_server::observe::Face;
use waterclock_server::rate_limiter as ours;

use crate::server::{Scene, frame};

const ENVOY: [&str; 3] = [
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    "/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit",
    "/kuadrant.service.ratelimit.v1.RateLimitService/Report",
];
const OURS: [&str; 9] =
    ["Check", "Peek", "Refund", "CheckAll", "Reserve", "Commit", "Cancel", "Report", "Wait"];
const INVALID_ARGUMENT: i32 = 3;
/// A policy cannot have the limit that a descriptor brings.
const UNFIT: i32 = 9;

thread_local! {
    static SCENE: Scene = Scene::new(Face::Grpc);
}

pub fn run(data: &[u8]) -> Corpus {
    let Some((kind, bytes)) = data.split_first() else { return Corpus::Reject };
    let kind = usize::from(*kind);
    if kind % 2 == 0 {
        let path = ENVOY[kind / 4 % ENVOY.len()];
        let message = match kind / 2 % 2 {
            0 => bytes.to_vec(),
            _ => match request(&mut Unstructured::new(bytes)) {
                Ok(request) => request.encode_to_vec(),
                Err(_) => return Corpus::Reject,
            },
        };
        envoy(path, &message);
    } else {
        our_own(OURS[kind / 2 % OURS.len()], bytes);
    }
    Corpus::Keep
}

fn envoy(path: &str, message: &[u8]) {
    let (answer, status) = call(path, message).expect("decided at once");
    let Ok(request) = RateLimitRequest::decode(message) else {
        return assert_eq!(status, INVALID_ARGUMENT);
    };
    if status != 0 {
        return assert!(
            answer.is_empty() && [INVALID_ARGUMENT, UNFIT].contains(&status),
            "{status}: {request:?}"
        );
    }
    let response = RateLimitResponse::decode(&answer[5..]).expect("a response");
    assert_eq!(response.statuses.len(), request.descriptors.len());
    let is_over = |code: Code| code == Code::OverLimit;
    let any = response.statuses.iter().any(|status| is_over(status.code()));
    assert_eq!(is_over(response.overall_code()), any, "{request:?} {response:?}");
}

fn our_own(method: &str, message: &[u8]) {
    let Some((answer, status)) = call(&format!("/waterclock.v1.RateLimiter/{method}"), message)
    else {
        return assert_eq!(method, "Wait");
    };
    assert!(![2, 13, 15].contains(&status), "{status}: {method}");
    let is_readable = match method {
        "CheckAll" => ours::CheckAllRequest::decode(message).is_ok(),
        "Reserve" => ours::ReserveRequest::decode(message).is_ok(),
        "Commit" => ours::CommitRequest::decode(message).is_ok(),
        "Cancel" => ours::CancelRequest::decode(message).is_ok(),
        "Report" => ours::ReportRequest::decode(message).is_ok(),
        "Wait" => ours::WaitRequest::decode(message).is_ok(),
        _ => ours::CheckRequest::decode(message).is_ok(),
    };
    assert!(status == 0 || answer.is_empty());
    assert!(is_readable || status != 0);
    if status == 0 && ["Check", "Peek", "Refund", "Wait"].contains(&method) {
        let decision = ours::Decision::decode(&answer[5..]).expect("a decision");
        assert!(decision.allowed || method != "Refund");
    }
}

/// The framed answer and the status; `None` if it waits.
fn call(path: &str, message: &[u8]) -> Option<(Vec<u8>, i32)> {
    SCENE.with(|scene| {
        let answer = scene.runtime.block_on(scene.faces.grpc(path, frame(message)));
        scene.forget();
        answer.map(|(answer, status)| (answer, status.expect("a status")))
    })
}

/// A request that the rules have something to say about.
fn request(from: &mut Unstructured<'_>) -> Result<RateLimitRequest> {
    let mut descriptors = Vec::new();
    for _ in 0..from.int_in_range(0..=4)? {
        let mut entries = Vec::new();
        for _ in 0..from.int_in_range(0..=3)? {
            let key = *from.choose(&["user", "path", "tokens", "bot", "method", "tier", ""])?;
            let value: &[u8] = match from.int_in_range(0..=3)? {
                0 => b"/api/x",
                1 => b"POST",
                _ => from.arbitrary()?,
            };
            entries.push(Entry { key: key.to_owned(), value: value.to_vec() });
        }
        let limit = match from.ratio(1, 4)? {
            true => Some(RateLimitOverride {
                requests_per_unit: from.arbitrary()?,
                unit: from.int_in_range(0..=8)?,
            }),
            false => None,
        };
        let hits = from.int_in_range(0..=3)?;
        descriptors.push(RateLimitDescriptor {
            entries,
            limit,
            hits_addend: if hits == 0 { Some(from.arbitrary()?) } else { None },
            is_negative_hits: hits == 1,
        });
    }
    let domain = *from.choose(&["d", "d", "d", "other", ""])?;
    Ok(RateLimitRequest {
        domain: domain.to_owned(),
        descriptors,
        hits_addend: from.int_in_range(0..=7)?,
    })
}

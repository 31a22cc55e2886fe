//! A gRPC status in header fields, with `google.rpc.RetryInfo` if the client may know when to retry.

use std::fmt::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use super::{Reason, Refusal};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

const INVALID_ARGUMENT: u32 = 3;
const RESOURCE_EXHAUSTED: u32 = 8;
const UNAVAILABLE: u32 = 14;

pub(super) fn response(refusal: &Refusal<'_>) -> Response<Bytes> {
    let (code, wait) = match refusal.reason {
        Reason::Limited(checked) => (RESOURCE_EXHAUSTED, checked.retry_after()),
        Reason::Key(_) | Reason::Tier(_) => (INVALID_ARGUMENT, None),
        Reason::Store(_) => (UNAVAILABLE, None),
    };
    let message = refusal.message();
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    let kind = refusal.request.headers.get(CONTENT_TYPE).cloned();
    headers
        .insert(CONTENT_TYPE, kind.unwrap_or_else(|| HeaderValue::from_static("application/grpc")));
    headers.insert(STATUS, code.into());
    insert(headers, MESSAGE, percent_encoded(&message));
    if let Some(wait) = wait {
        let details = STANDARD_NO_PAD.encode(status(code, &message, wait));
        insert(headers, DETAILS, details);
    }
    response
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    // Percent-encoded text and base64 are always valid values.
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

/// Encodes everything but printable ASCII, and the percent sign itself.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            // Writing to a String cannot fail.
            _ => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    encoded
}

/// A `google.rpc.Status` with one detail, a `google.rpc.RetryInfo`, in the protobuf encoding.
fn status(code: u32, message: &str, wait: Duration) -> Vec<u8> {
    let mut duration = Vec::new();
    number(&mut duration, 1, wait.as_secs());
    number(&mut duration, 2, wait.subsec_nanos().into());
    let mut retry_info = Vec::new();
    bytes(&mut retry_info, 1, &duration);
    let mut any = Vec::new();
    bytes(&mut any, 1, RETRY_INFO.as_bytes());
    bytes(&mut any, 2, &retry_info);
    let mut status = Vec::new();
    number(&mut status, 1, code.into());
    bytes(&mut status, 2, message.as_bytes());
    bytes(&mut status, 3, &any);
    status
}

fn number(to: &mut Vec<u8>, field: u64, value: u64) {
    varint(to, field << 3);
    varint(to, value);
}

fn bytes(to: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(to, field << 3 | 2);
    varint(to, value.len() as u64);
    to.extend_from_slice(value);
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    to.push((value & 0x7f) as u8);
}

//! `X-Forwarded-For`: addresses with commas between them, each written by the hop after it.

use std::net::IpAddr;

use http::HeaderValue;
use http::header::GetAll;

use super::hop;

/// The hops, the last first; `None` for one that is no address. Empty ones are skipped, as in any
/// list of a header.
pub(super) fn hops(lines: GetAll<'_, HeaderValue>) -> impl Iterator<Item = Option<IpAddr>> {
    lines
        .into_iter()
        .rev()
        .flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
        .map(|entry| std::str::from_utf8(entry).ok().and_then(hop::parse))
}

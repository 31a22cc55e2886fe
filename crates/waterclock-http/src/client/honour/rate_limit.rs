//! `RateLimit` as in draft-ietf-httpapi-ratelimit-headers-10: a Structured Field List of Strings.

use std::time::Duration;

use sfv::{Item, List, ListEntry, Parser};

/// The longest `t` among the limits with nothing left; none if there is none, or if this is no such list.
pub(super) fn longest_without_rest(text: &str) -> Option<Duration> {
    let list: List = Parser::new(text).parse().ok()?;
    list.iter().filter_map(wait).max()
}

fn wait(entry: &ListEntry) -> Option<Duration> {
    let ListEntry::Item(item) = entry else { return None };
    // The draft says String. Tokens, as earlier drafts had them, are understood as well.
    let is_named = item.bare_item.as_string().is_some() || item.bare_item.as_token().is_some();
    if !is_named || integer(item, "r")? > 0 {
        return None;
    }
    u64::try_from(integer(item, "t")?).ok().map(Duration::from_secs)
}

fn integer(item: &Item, name: &str) -> Option<i64> {
    item.params.get(name)?.as_integer().map(i64::from)
}

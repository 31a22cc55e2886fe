//! Counters of one limit, under the names that dashboards for the reference service read.
//!
//! Their labels come from the configuration, never from requests: clients cannot make more of them.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Descriptor;

/// From which share of the limit on hits are near it, in hundredths.
pub(crate) const NEAR: u64 = 80;

/// The hits of one limit.
#[derive(Debug)]
pub(crate) struct Hits {
    /// `domain="…",key1="…",key2="…"`.
    labels: String,
    total: AtomicU64,
    near: AtomicU64,
    over: AtomicU64,
}

impl Hits {
    pub(super) fn new(domain: &str, path: &[&Descriptor]) -> Hits {
        let mut labels = String::new();
        label(&mut labels, "domain", domain);
        let mut names = path.iter().map(|entry| match &*entry.value {
            "" => entry.key.clone(),
            value => format!("{}_{value}", entry.key),
        });
        if let Some(first) = names.next() {
            label(&mut labels, "key1", &first);
        }
        let rest: Vec<String> = names.collect();
        if !rest.is_empty() {
            label(&mut labels, "key2", &rest.join("."));
        }
        Hits { labels, total: AtomicU64::new(0), near: AtomicU64::new(0), over: AtomicU64::new(0) }
    }

    /// Counts hits of which the limit has refused all or none.
    pub(crate) fn count(&self, hits: u64, refused: bool, limit: u64, remaining: u64, near: u64) {
        self.total.fetch_add(hits, Ordering::Relaxed);
        if refused {
            self.over.fetch_add(hits, Ordering::Relaxed);
            return;
        }
        let used = limit.saturating_sub(remaining);
        let threshold = u64::try_from(u128::from(limit) * u128::from(near) / 100).unwrap_or(limit);
        self.near.fetch_add(used.saturating_sub(threshold).min(hits), Ordering::Relaxed);
    }

    fn samples(&self) -> [u64; 3] {
        [&self.total, &self.near, &self.over].map(|count| count.load(Ordering::Relaxed))
    }
}

/// All counters as Prometheus reads them.
pub(crate) fn hits_text<'h>(all: impl Iterator<Item = &'h Hits> + Clone) -> String {
    let mut text = String::new();
    if all.clone().next().is_none() {
        return text;
    }
    for (at, name) in ["total_hits", "near_limit", "over_limit"].into_iter().enumerate() {
        let name = format!("ratelimit_service_rate_limit_{name}");
        // Their names lack the ending of counters.
        _ = writeln!(text, "# TYPE {name} unknown");
        for hits in all.clone() {
            _ = writeln!(text, "{name}{{{}}} {}", hits.labels, hits.samples()[at]);
        }
    }
    text
}

fn label(labels: &mut String, name: &str, value: &str) {
    if !labels.is_empty() {
        labels.push(',');
    }
    _ = write!(labels, "{name}=\"");
    for letter in value.chars() {
        match letter {
            '"' | '\\' => labels.extend(['\\', letter]),
            '\n' => labels.push_str("\\n"),
            letter => labels.push(letter),
        }
    }
    labels.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_over_are_counted_as_hits() {
        let entry =
            Descriptor { key: "k".to_owned(), value: "a\"b".to_owned(), ..Descriptor::default() };
        let hits = Hits::new("d", &[&entry, &entry, &entry]);
        // A limit of 10: near from the ninth on.
        for used in 1..=10 {
            hits.count(1, false, 10, 10 - used, NEAR);
        }
        hits.count(3, true, 10, 0, NEAR);
        assert_eq!(hits.samples(), [13, 2, 3]);
        let text = hits_text(std::iter::once(&hits));
        let labels = r#"{domain="d",key1="k_a\"b",key2="k_a\"b.k_a\"b"}"#;
        assert!(text.contains(&format!("rate_limit_near_limit{labels} 2\n")), "{text}");
        assert_eq!(hits_text(std::iter::empty()), "");
    }
}

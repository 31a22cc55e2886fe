//! What the reference service does with a descriptor, told anew and as plainly as can be.

use super::Fate;

/// A descriptor of the file.
pub(super) struct Node {
    pub(super) key: String,
    /// Nothing is any value; a `*` at the end is any rest.
    pub(super) value: Option<String>,
    /// Per day.
    pub(super) requests: Option<u32>,
    pub(super) below: Vec<Node>,
}

/// Goes down the tree: at each level the same value, else the first wildcard that fits, else any value;
/// what it finds at the last entry counts, and there is no way back.
pub(super) fn fate(nodes: &[Node], descriptor: &[(&str, &str)]) -> Fate {
    let [(key, value), rest @ ..] = descriptor else { return Fate::Free };
    let of_key = || nodes.iter().filter(|node| node.key == *key);
    let same = of_key().find(|node| node.value.as_deref() == Some(value));
    let wild = of_key().find(|node| {
        let prefix = node.value.as_deref().and_then(|value| value.strip_suffix('*'));
        prefix.is_some_and(|prefix| value.starts_with(prefix))
    });
    let any = of_key().find(|node| node.value.is_none());
    let Some(node) = same.or(wild).or(any) else { return Fate::Free };
    if !rest.is_empty() {
        return fate(&node.below, rest);
    }
    match node.requests {
        None => Fate::Free,
        Some(0) => Fate::Refused,
        Some(requests) => Fate::Limited(requests.into(), 86_400_000_000),
    }
}

/// The file's lines, indented so far.
pub(super) fn yaml(nodes: &[Node], indent: usize, out: &mut String) {
    let space = " ".repeat(indent);
    for node in nodes {
        out.push_str(&format!("{space}- key: {}\n", node.key));
        if let Some(value) = &node.value {
            out.push_str(&format!("{space}  value: \"{value}\"\n"));
        }
        if let Some(requests) = node.requests {
            let limit = format!("{{ unit: day, requests_per_unit: {requests} }}");
            out.push_str(&format!("{space}  rate_limit: {limit}\n"));
        }
        if !node.below.is_empty() {
            out.push_str(&format!("{space}  descriptors:\n"));
            yaml(&node.below, indent + 4, out);
        }
    }
}

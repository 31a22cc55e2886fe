//! What one node believes about its cluster.

use std::ops::RangeInclusive;

use super::super::redis::field;
use super::super::{RedisServer, Reply};

/// A cluster as one of its nodes sees it. Views differ for a while after every change.
#[derive(Debug)]
pub(super) struct View {
    /// Whether all slots are served, as far as this node knows.
    pub(super) complete: bool,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    id: String,
    flags: String,
    /// Where two claim the same slot, the later epoch is right.
    epoch: u64,
    slots: Vec<RangeInclusive<u16>>,
}

impl View {
    /// Asks a node; `None` if it does not answer.
    pub(super) fn of(node: &RedisServer) -> Option<Self> {
        let mut connection = node.connect().ok()?;
        let mut ask = |what| match connection.command(&["CLUSTER", what]) {
            Ok(Reply::Bulk(text)) => Some(String::from_utf8_lossy(&text).into_owned()),
            // A replica that is being filled answers that it is busy.
            _ => None,
        };
        Some(Self {
            complete: field(&ask("INFO")?, "cluster_state").as_deref() == Some("ok"),
            members: ask("NODES")?.lines().map(Member::read).collect(),
        })
    }

    /// Whether it knows all of these nodes, with nobody half known.
    pub(super) fn knows(&self, ids: &[String]) -> bool {
        ids.iter().all(|id| self.members.iter().any(|member| member.id == *id))
            && self.members.iter().all(|member| !member.flags.contains("handshake"))
    }

    /// How many replicas there are.
    pub(super) fn replicas(&self) -> usize {
        self.members.iter().filter(|member| member.flags.contains("slave")).count()
    }

    /// Who serves a slot, and since which epoch.
    pub(super) fn owner(&self, slot: u16) -> Option<(u64, &str)> {
        let serves = |member: &&Member| member.slots.iter().any(|range| range.contains(&slot));
        self.members.iter().find(serves).map(|member| (member.epoch, member.id.as_str()))
    }

    /// Who serves what: the first slot of each range with its owner, in order.
    pub(super) fn shares(&self) -> Vec<(u16, &str)> {
        let all = self.members.iter().flat_map(|member| {
            member.slots.iter().map(|range| (*range.start(), member.id.as_str()))
        });
        let mut shares: Vec<_> = all.collect();
        shares.sort_unstable();
        shares
    }
}

impl Member {
    /// Reads a line of `CLUSTER NODES`: id, address, flags, primary, ping, pong, epoch, link, slots.
    fn read(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        // What is in brackets is a slot that is moving; who serves it is said elsewhere.
        let slots = words[8..].iter().filter(|word| !word.starts_with('['));
        Self {
            id: words[0].into(),
            flags: words[2].into(),
            epoch: words[6].parse().expect("an epoch is a number"),
            slots: slots.map(|word| read_range(word)).collect(),
        }
    }
}

fn read_range(word: &str) -> RangeInclusive<u16> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let slot = |text: &str| text.parse().expect("a slot is a number");
    slot(first)..=slot(last)
}

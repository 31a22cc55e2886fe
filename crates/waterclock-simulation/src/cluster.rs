//! A cluster: which server owns which slot, and what a server says about a slot that is being moved.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::keyspace::Keyspace;
use crate::resp::Reply;

/// Slots of a cluster.
pub const SLOTS: u16 = 16_384;

/// Who owns which slot.
#[derive(Clone, Debug)]
pub struct Slots {
    /// The slots that each server began with.
    shares: Vec<Range<u16>>,
    /// Slots that another server owns now.
    moved: BTreeMap<u16, usize>,
    /// Slots whose keys are on their way to another server.
    moving: BTreeMap<u16, usize>,
    /// A planted bug: a server goes on to serve the slots that it began with.
    is_stale: bool,
}

/// A call as a server of a cluster sees it before it runs it.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The node that calls. Each knows servers by names of its own.
    pub node: usize,
    /// The server that is called.
    pub server: usize,
    /// Whether `ASKING` came before.
    pub is_asking: bool,
}

impl Slots {
    /// Equal shares.
    pub(crate) fn new(servers: usize, is_stale: bool) -> Self {
        let servers = u16::try_from(servers).unwrap_or(1);
        let share = SLOTS / servers;
        let end = |i: u16| if i + 1 == servers { SLOTS } else { (i + 1) * share };
        let shares = (0..servers).map(|i| i * share..end(i)).collect();
        Self { shares, moved: BTreeMap::new(), moving: BTreeMap::new(), is_stale }
    }

    /// The server that owns a slot.
    #[must_use]
    pub fn owner(&self, slot: u16) -> usize {
        let began = || self.shares.iter().position(|share| share.contains(&slot)).unwrap_or(0);
        self.moved.get(&slot).copied().unwrap_or_else(began)
    }

    /// A slot begins to move; false if it is moving already, or is there.
    pub fn begin(&mut self, slot: u16, to: usize) -> bool {
        let moves = self.owner(slot) != to && !self.moving.contains_key(&slot);
        if moves {
            self.moving.insert(slot, to);
        }
        moves
    }

    /// All keys of a slot are where it moves to, which owns it from now on.
    pub fn end(&mut self, slot: u16) {
        if let Some(to) = self.moving.remove(&slot) {
            self.moved.insert(slot, to);
        }
    }

    /// What a server says instead of running a call with these keys, as Redis 7 does.
    pub(crate) fn refuses(
        &self,
        caller: Caller,
        keys: &[Vec<u8>],
        (keyspace, now_us): (&Keyspace, u64),
    ) -> Option<Reply> {
        let first = keys.first()?;
        let slot = slot_of(first);
        if keys.iter().any(|key| slot_of(key) != slot) {
            let reason = "CROSSSLOT Keys in request don't hash to the same slot";
            return Some(Reply::Error(reason.into()));
        }
        let redirect = |how: &str, to: usize| {
            Some(Reply::Error(format!("{how} {slot} {}", address(caller.node, to))))
        };
        let try_again =
            || Some(Reply::Error("TRYAGAIN Multiple keys request during rehashing of slot".into()));
        let (owner, moving) = (self.owner(slot), self.moving.get(&slot).copied());
        let is_here = |key: &Vec<u8>| keyspace.has(now_us, key);
        if caller.server == owner || self.is_stale && self.shares[caller.server].contains(&slot) {
            let missing = keys.iter().filter(|key| !is_here(key)).count();
            return match moving {
                Some(to) if missing == keys.len() => redirect("ASK", to),
                Some(_) if missing > 0 => try_again(),
                _ => None,
            };
        }
        if moving == Some(caller.server) && caller.is_asking {
            let differ = keys.iter().any(|key| key != first);
            return if differ && !keys.iter().all(is_here) { try_again() } else { None };
        }
        redirect("MOVED", owner)
    }

    /// The reply to `CLUSTER SLOTS`.
    pub(crate) fn map(&self, node: usize) -> Reply {
        let number = |n: u16| Reply::Int(i64::from(n));
        let mut ranges: Vec<(Range<u16>, usize)> = Vec::new();
        for (server, share) in self.shares.iter().enumerate() {
            let mut from = share.start;
            for (slot, owner) in self.moved.range(share.clone()) {
                ranges.push((from..*slot, server));
                ranges.push((*slot..slot + 1, *owner));
                from = slot + 1;
            }
            ranges.push((from..share.end, server));
        }
        let each = ranges.into_iter().filter(|(range, _)| !range.is_empty());
        let each = each.map(|(range, server)| {
            let primary =
                vec![Reply::text(host(node, server)), Reply::Int(6379), Reply::text("id")];
            Reply::Array(vec![number(range.start), number(range.end - 1), Reply::Array(primary)])
        });
        Reply::Array(each.collect())
    }
}

/// By which name a node knows a server. Each pair of them has a link of its own.
#[must_use]
pub fn host(node: usize, server: usize) -> String {
    format!("n{node}.s{server}")
}

fn address(node: usize, server: usize) -> String {
    format!("{}:6379", host(node, server))
}

/// The slot of a key: a checksum of what stands in braces, or of all of it.
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    let mut sum = 0_u16;
    for byte in tag.unwrap_or(key) {
        sum ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            sum = if sum & 0x8000 != 0 { sum << 1 ^ 0x1021 } else { sum << 1 };
        }
    }
    sum % SLOTS
}

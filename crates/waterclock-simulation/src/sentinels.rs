//! A primary, its replica, and the sentinels that say which is which.

use std::collections::VecDeque;

use crate::cluster::host;
use crate::keyspace::Keyspace;
use crate::resp::Reply;

/// How many sentinels there are.
pub const SENTINELS: usize = 3;
/// How much later than the first each sentinel learns of a failover.
const LEARNS_AFTER_MS: [u64; SENTINELS] = [0, 300, 1_000];
/// What the sentinels call the pair.
pub const SERVICE: &str = "main";

/// Two servers, of which one is the primary.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The primary: what the other has of it is as old as the replica's lag.
    pub primary: usize,
    lag_ms: u64,
    /// The keys as they were after each script on the primary, the newest last.
    states: VecDeque<(u64, Keyspace)>,
    /// When the last replica was promoted, and how often that was done.
    promoted_ms: u64,
    epoch: u64,
    /// A planted bug: some nodes are not told of a failover as long as the old primary goes on.
    is_stale: bool,
    /// Whether it does.
    is_split: bool,
}

impl Pair {
    /// A pair whose replica is so many milliseconds behind.
    pub(crate) fn new(lag_ms: u64, is_stale: bool) -> Self {
        let (primary, promoted_ms, epoch) = (0, 0, 0);
        let (states, is_split) = (VecDeque::new(), false);
        Self { primary, lag_ms, states, promoted_ms, epoch, is_stale, is_split }
    }

    /// How long the replica takes to have what the primary was told, if a server is the primary.
    #[must_use]
    pub fn lag_ms(&self, server: usize) -> Option<u64> {
        (server == self.primary).then_some(self.lag_ms)
    }

    /// The keys of a server after a script.
    pub(crate) fn note(&mut self, at_ms: u64, server: usize, keyspace: &Keyspace) {
        if server != self.primary {
            return;
        }
        self.states.push_back((at_ms, keyspace.clone()));
        while self.states.get(1).is_some_and(|(next, _)| next + self.lag_ms <= at_ms) {
            self.states.pop_front();
        }
    }

    /// The replica becomes the primary; what it has of the keys.
    pub(crate) fn promote(&mut self, at_ms: u64) -> Keyspace {
        let (primary, lag_ms) = (1 - self.primary, self.lag_ms);
        let states = std::mem::take(&mut self.states);
        let known = states.into_iter().rev().find(|(written, _)| written + lag_ms <= at_ms);
        (self.primary, self.promoted_ms, self.is_split) = (primary, at_ms, true);
        self.epoch += 1;
        let keys = known.map(|(_, keys)| keys).unwrap_or_default();
        self.states.push_back((at_ms, keys.clone()));
        keys
    }

    /// The other has become its replica.
    pub(crate) fn join(&mut self) {
        self.is_split = false;
    }

    /// Whether a node is not told of the failover.
    pub(crate) fn keeps_from(&self, node: usize) -> bool {
        self.is_stale && self.is_split && node % 2 == 1
    }

    /// What a sentinel says.
    pub(crate) fn say(&self, at_ms: u64, node: usize, sentinel: usize, words: &[Vec<u8>]) -> Reply {
        let word = |i: usize| {
            words
                .get(i)
                .map_or(String::new(), |word| String::from_utf8_lossy(word).to_ascii_uppercase())
        };
        let knows = at_ms >= self.promoted_ms + LEARNS_AFTER_MS[sentinel] || self.epoch == 0;
        let (primary, epoch) = match (self.keeps_from(node), knows) {
            (true, _) => (1 - self.primary, self.epoch - 1),
            (_, true) => (self.primary, self.epoch),
            _ => (1 - self.primary, self.epoch - 1),
        };
        match (&*word(0), &*word(1)) {
            ("SENTINEL", "GET-MASTER-ADDR-BY-NAME") => {
                Reply::Array(vec![Reply::text(host(node, primary)), Reply::text("6379")])
            }
            ("SENTINEL", "MASTER") => {
                Reply::Map(vec![Reply::text("config-epoch"), Reply::text(epoch.to_string())])
            }
            ("SUBSCRIBE", _) => Reply::Push(vec![
                Reply::text("subscribe"),
                Reply::text("+switch-master"),
                Reply::Int(1),
            ]),
            ("HELLO", _) => Reply::Map(vec![Reply::text("proto"), Reply::Int(3)]),
            ("CLIENT" | "PING", _) => Reply::ok(),
            (name, _) => Reply::Error(format!("ERR unknown command '{name}'")),
        }
    }

    /// What sentinels tell those who listen.
    pub(crate) fn news() -> Reply {
        Reply::Push(vec![
            Reply::text("message"),
            Reply::text("+switch-master"),
            Reply::text(SERVICE),
        ])
    }
}

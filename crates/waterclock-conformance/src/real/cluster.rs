//! A Redis cluster for one test.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use parking_lot::Mutex;

use super::redis::{Settings, field};
use super::{Program, RedisServer, Reply, await_that, wait_for};

/// How many slots keys are spread over.
const SLOTS: usize = 16_384;

/// A real Redis cluster: primaries that share the slots evenly, each with its replicas. Nodes are
/// known by their index: primaries first, then the replicas of the first primary, and so on.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
    ids: Vec<String>,
    /// One slot of each serving node when the cluster was last complete. The node that serves it later is its successor.
    homes: Mutex<BTreeMap<usize, u16>>,
}

/// A slot on its way from one node to another, between [`Cluster::begin_move`] and
/// [`Cluster::finish_move`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a slot that is moving stays so until the move is finished"]
pub struct Move {
    /// Which slot.
    pub slot: u16,
    /// The index of the node that still serves it.
    pub from: usize,
    /// The index of the node that is about to.
    pub to: usize,
}

impl Cluster {
    /// Starts a cluster and waits until it is complete and every replica follows.
    pub fn start(primaries: usize, replicas_each: usize) -> Self {
        Self::start_as(Program::Redis, primaries, replicas_each)
    }

    /// Starts a cluster of another program.
    pub fn start_as(program: Program, primaries: usize, replicas_each: usize) -> Self {
        assert!(primaries > 0, "a cluster has at least one primary");
        let mut settings = Settings::server_of(program).with(&[
            ("cluster-enabled", "yes"),
            ("cluster-node-timeout", "1000"),
            // Replicas stay with their primary, and follow or replace it however old their data is.
            ("cluster-allow-replica-migration", "no"),
            ("cluster-replica-validity-factor", "0"),
            ("repl-diskless-sync-delay", "0"),
        ]);
        settings.ports.push("cluster-port");
        let count = primaries * (1 + replicas_each);
        let nodes: Vec<_> = (0..count).map(|_| RedisServer::launch(settings.clone())).collect();
        let id = |node: &RedisServer| node.command(&["CLUSTER", "MYID"]).as_text();
        let ids = nodes.iter().map(id).collect();
        let cluster = Self { nodes, ids, homes: Mutex::default() };
        cluster.share_slots(primaries);
        cluster.meet();
        for replica in primaries..count {
            let primary = (replica - primaries) / replicas_each;
            cluster.configure(replica, &["REPLICATE", &cluster.ids[primary]]);
        }
        await_that("every replica follows its primary, and every node knows", || {
            let replicas = &cluster.nodes[primaries..];
            let link = |node: &RedisServer| node.info("replication", "master_link_status");
            replicas.iter().all(|replica| link(replica).as_deref() == Some("up"))
                && cluster.all_see(|view| view.replicas() == replicas.len())
        });
        cluster.wait_until_ok();
        cluster
    }

    /// Where to find it: `redis-cluster://127.0.0.1:P1,127.0.0.1:P2,…`, all nodes.
    pub fn url(&self) -> String {
        let addrs: Vec<_> = self.nodes.iter().map(RedisServer::addr).collect();
        format!("redis-cluster://{}", addrs.join(","))
    }

    /// The nodes, by index.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The nodes, by index.
    pub fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// The slot of a key, with `{hash tags}`, as the nodes count it.
    pub fn slot_of(&self, key: impl AsRef<[u8]>) -> u16 {
        let command = [b"CLUSTER".as_slice(), b"KEYSLOT", key.as_ref()];
        let node = self.up().next().expect("some node is up");
        u16::try_from(node.command(&command).as_int()).expect("slots are small")
    }

    /// The index of the node that serves a slot. If nodes disagree, the latest epoch wins.
    pub fn primary_of_slot(&self, slot: u16) -> usize {
        let views: Vec<_> = self.up().filter_map(View::of).collect();
        let latest = views.iter().filter_map(|view| view.owner(slot)).max();
        self.index(latest.expect("every slot is served").1)
    }

    /// Moves a slot with its keys while the cluster is in use, and waits until all nodes know.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        let moving = self.begin_move(slot, to);
        assert_eq!(moving.from, from, "slot {slot} is served by another node");
        self.finish_move(moving);
    }

    /// Begins to move a slot. No key is moved yet, but from now on `from` redirects requests for keys that it does not have
    /// (`ASK`), and `to` serves redirected requests (`ASKING`).
    pub fn begin_move(&self, slot: u16, to: usize) -> Move {
        let from = self.primary_of_slot(slot);
        let text = slot.to_string();
        self.configure(to, &["SETSLOT", &text, "IMPORTING", &self.ids[from]]);
        self.configure(from, &["SETSLOT", &text, "MIGRATING", &self.ids[to]]);
        Move { slot, from, to }
    }

    /// Moves up to `count` keys of a slot that is moving; returns how many there were.
    pub fn move_keys(&self, moving: Move, count: usize) -> usize {
        let (slot, count) = (moving.slot.to_string(), count.to_string());
        let from = &self.nodes[moving.from];
        let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &slot, &count]).unwrap();
        let port = self.nodes[moving.to].port().to_string();
        let mut migrate: Vec<Vec<u8>> = ["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"]
            .map(|word| word.as_bytes().to_vec())
            .into();
        migrate.extend(keys.as_array().iter().map(|key| match key {
            Reply::Bulk(key) => key.clone(),
            other => panic!("not a key: {other:?}"),
        }));
        if !keys.as_array().is_empty() {
            from.command(&migrate).unwrap();
        }
        keys.as_array().len()
    }

    /// Moves the keys that are left, hands the slot over, and waits until all nodes know.
    pub fn finish_move(&self, moving: Move) {
        while self.move_keys(moving, 100) > 0 {}
        let Move { slot, from, to } = moving;
        // The new owner first; otherwise both would refuse the slot in between.
        let others = (0..self.nodes.len()).filter(|&i| i != to && i != from);
        for node in [to, from].into_iter().chain(others) {
            if self.nodes[node].is_up() && self.is_primary(node) {
                self.configure(node, &["SETSLOT", &slot.to_string(), "NODE", &self.ids[to]]);
            }
        }
        self.wait_until("every node knows where a moved slot went", || {
            self.primary_of_slot(slot) == to
        });
    }

    /// Kills a primary as a crash would.
    pub fn kill_primary(&self, primary: usize) {
        assert!(self.is_primary(primary), "node {primary} is not a primary");
        self.nodes[primary].kill();
    }

    /// Waits until a replica serves the slots of a primary that was killed or paused, and every
    /// node that is up knows; returns that replica. Panics after three minutes.
    pub fn wait_for_failover(&self, primary: usize) -> usize {
        let home = self.homes.lock().get(&primary).copied();
        let slot = home.unwrap_or_else(|| panic!("node {primary} served no slots"));
        self.wait_until("a replica takes over", || self.primary_of_slot(slot) != primary);
        self.primary_of_slot(slot)
    }

    /// Waits until all slots are served and all nodes that are up agree on the owners. Panics after three minutes.
    pub fn wait_until_ok(&self) {
        self.wait_until("every node finds the cluster complete", || true);
    }

    /// Waits until the cluster is complete and `holds` is true.
    fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let homes = wait_for(what, || {
            let views = self.views()?;
            let shares = views.first()?.shares();
            let is_complete = views.iter().all(|view| view.complete && view.shares() == shares);
            let homes = || shares.iter().map(|&(slot, id)| (self.index(id), slot)).collect();
            (is_complete && holds()).then(homes)
        });
        *self.homes.lock() = homes;
    }

    /// Assigns the slots to the primaries, with different epochs, so that no two nodes compete for the newer claim.
    fn share_slots(&self, primaries: usize) {
        for primary in 0..primaries {
            let first = primary * SLOTS / primaries;
            let last = (primary + 1) * SLOTS / primaries - 1;
            self.configure(primary, &["ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
        }
        for node in 0..self.nodes.len() {
            self.configure(node, &["SET-CONFIG-EPOCH", &(node + 1).to_string()]);
        }
    }

    /// Makes all nodes known to each other.
    fn meet(&self) {
        let first = &self.nodes[0];
        for node in &self.nodes[1..] {
            let (port, bus) = (node.port().to_string(), node.port_of("cluster-port").to_string());
            first.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).unwrap();
        }
        await_that("every node knows all nodes", || self.all_see(|view| view.knows(&self.ids)));
    }

    fn configure(&self, node: usize, command: &[&str]) {
        self.nodes[node].command(&[&["CLUSTER"], command].concat()).unwrap();
    }

    fn up(&self) -> impl Iterator<Item = &RedisServer> {
        self.nodes.iter().filter(|node| node.is_up())
    }

    /// The views of all nodes that are up; `None` if one does not answer.
    fn views(&self) -> Option<Vec<View>> {
        self.up().map(View::of).collect()
    }

    /// Whether something is true in the views of all nodes that are up.
    fn all_see(&self, something: impl Fn(&View) -> bool) -> bool {
        self.views().is_some_and(|views| views.iter().all(something))
    }

    fn index(&self, id: &str) -> usize {
        self.ids.iter().position(|known| known == id).expect("a node of this cluster")
    }

    fn is_primary(&self, node: usize) -> bool {
        self.nodes[node].info("replication", "role").as_deref() == Some("master")
    }
}

/// A cluster as one of its nodes sees it. Views differ for a while after every change.
#[derive(Debug)]
struct View {
    /// Whether all slots are served, as far as this node knows.
    complete: bool,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    id: String,
    flags: String,
    /// If two nodes claim a slot, the later epoch wins.
    epoch: u64,
    slots: Vec<RangeInclusive<u16>>,
}

impl View {
    /// The view of a node; `None` if it does not answer.
    fn of(node: &RedisServer) -> Option<Self> {
        let mut connection = node.connect().ok()?;
        let mut query = |what| match connection.command(&["CLUSTER", what]) {
            Ok(Reply::Bulk(text)) => Some(String::from_utf8_lossy(&text).into_owned()),
            // A replica that is being filled answers that it is busy.
            _ => None,
        };
        Some(Self {
            complete: field(&query("INFO")?, "cluster_state").as_deref() == Some("ok"),
            members: query("NODES")?.lines().map(Member::read).collect(),
        })
    }

    /// Whether it knows all of these nodes, with no handshake pending.
    fn knows(&self, ids: &[String]) -> bool {
        ids.iter().all(|id| self.members.iter().any(|member| member.id == *id))
            && self.members.iter().all(|member| !member.flags.contains("handshake"))
    }

    /// How many replicas there are.
    fn replicas(&self) -> usize {
        self.members.iter().filter(|member| member.flags.contains("slave")).count()
    }

    /// The epoch and id of the node that serves a slot.
    fn owner(&self, slot: u16) -> Option<(u64, &str)> {
        let serves = |member: &&Member| member.slots.iter().any(|range| range.contains(&slot));
        self.members.iter().find(serves).map(|member| (member.epoch, member.id.as_str()))
    }

    /// The owners: the first slot of each range with its node, in order.
    fn shares(&self) -> Vec<(u16, &str)> {
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
        // Slots in brackets are moving; their owner is listed as well.
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

//! The network between nodes and servers: connections that delay, lose, hold back and break, in virtual time.
//!
//! A host is called `n3.s0`: the way from node 3 to server 0. So each pair has a link of its own, which faults strike.
//! Behind the servers come the sentinels, if there are some.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{
    AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};
use waterclock_redis::{Dialled, SimulatedNetwork};

use crate::cluster::{Caller, Slots, slot_of};
use crate::plant::Plant;
use crate::resp::{Reply, take_command};
use crate::sentinels::Pair;
use crate::server::{Health, Server};

/// The buffer of a connection. More than any history sends at once.
const BUFFER: usize = 1 << 22;

/// How a link between a node and a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Nothing gets to the server.
    pub up_blocked: bool,
    /// Nothing gets to the node.
    pub down_blocked: bool,
    /// The shortest and the longest delay of a packet, in milliseconds.
    pub delay_ms: (u64, u64),
    /// Of a thousand packets, so many are lost and sent again after a fifth of a second.
    pub lost: u64,
    /// The node is gone: its connections break, and it opens no more.
    pub is_gone: bool,
}

impl Default for LinkState {
    fn default() -> Self {
        let (up_blocked, down_blocked, is_gone) = (false, false, false);
        Self { up_blocked, down_blocked, delay_ms: (0, 2), lost: 0, is_gone }
    }
}

/// Servers and links.
pub struct World {
    /// The servers, by number.
    pub servers: Vec<Server>,
    links: BTreeMap<(usize, usize), LinkState>,
    connections: BTreeMap<u64, Connection>,
    opened: u64,
    random: fastrand::Rng,
    /// Which server owns which slot, if they are a cluster.
    pub slots: Option<Slots>,
    /// Which of two servers is the primary, if sentinels watch them.
    pub pair: Option<Pair>,
    origin: Instant,
    plant: Plant,
}

struct Connection {
    node: usize,
    server: usize,
    tasks: Vec<AbortHandle>,
    /// What the node is sent, and whether it listens to what a sentinel tells.
    replies: Packets,
    is_listening: bool,
}

/// What is on its way, and when it arrives.
type Packets = mpsc::UnboundedSender<(Instant, Vec<u8>)>;

/// The network of one history.
#[derive(Clone)]
pub struct Network {
    /// What is connected.
    pub world: Arc<Mutex<World>>,
    changed: Arc<Notify>,
}

impl Network {
    /// A network in which nothing is wrong.
    #[must_use]
    pub fn new(
        servers: Vec<Server>,
        (slots, pair): (Option<Slots>, Option<Pair>),
        seed: u64,
        plant: Plant,
    ) -> Self {
        let world = World {
            servers,
            links: BTreeMap::new(),
            connections: BTreeMap::new(),
            opened: 0,
            random: fastrand::Rng::with_seed(seed),
            slots,
            pair,
            origin: Instant::now(),
            plant,
        };
        Self { world: Arc::new(Mutex::new(world)), changed: Arc::default() }
    }

    /// Changes links or servers; what waits for that goes on.
    pub fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let changed = change(&mut self.world.lock());
        self.changed.notify_waiters();
        changed
    }

    /// Waits until something is so.
    async fn until<T>(&self, mut is: impl FnMut(&mut World) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = is(&mut self.world.lock()) {
                return found;
            }
            changed.await;
        }
    }

    async fn connect(self, node: usize, server: usize) -> io::Result<DuplexStream> {
        let delay = self.world.lock().delay(node, server);
        sleep(delay).await;
        // A packet that is held back is sent again until it gets through.
        let is_refused = self.until(|world| {
            let link = world.link(node, server);
            if link.is_gone || world.health(server) == Health::Down {
                return Some(true);
            }
            (!link.up_blocked && !link.down_blocked).then_some(false)
        });
        if is_refused.await {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (ours, theirs) = duplex(BUFFER);
        let (reader, writer) = split(theirs);
        let ((up, arriving), (down, leaving)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let mut world = self.world.lock();
        world.opened += 1;
        let id = world.opened;
        let (a, b, c) = (self.clone(), self.clone(), self.clone());
        let tasks = vec![
            tokio::spawn(a.carry_up(reader, (node, server), up)).abort_handle(),
            tokio::spawn(b.serve(id, (node, server), arriving, down.clone())).abort_handle(),
            tokio::spawn(c.carry_down(writer, (node, server), leaving)).abort_handle(),
        ];
        let connection = Connection { node, server, tasks, replies: down, is_listening: false };
        world.connections.insert(id, connection);
        Ok(ours)
    }

    async fn carry_up(
        self,
        mut from: ReadHalf<DuplexStream>,
        (node, server): (usize, usize),
        to: Packets,
    ) {
        let mut last = Instant::now();
        let mut buffer = vec![0; 1 << 14];
        while let Ok(n @ 1..) = from.read(&mut buffer).await {
            last = last.max(Instant::now() + self.world.lock().delay(node, server));
            if to.send((last, buffer[..n].to_vec())).is_err() {
                return;
            }
        }
    }

    async fn serve(
        self,
        id: u64,
        (node, server): (usize, usize),
        mut arriving: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
        replies: Packets,
    ) {
        let mut received = Vec::new();
        let mut is_asking = false;
        let mut last = Instant::now();
        while let Some((at, bytes)) = arriving.recv().await {
            sleep_until(at).await;
            self.until(|world| (!world.link(node, server).up_blocked).then_some(())).await;
            received.extend(bytes);
            while let Some(words) = take_command(&mut received) {
                self.until(|world| (world.health(server) != Health::Stopped).then_some(())).await;
                let waited = match &*words[0] {
                    b"WAIT" => Some(self.wait(server, &words).await),
                    _ => None,
                };
                let caller = Caller { node, server, is_asking: std::mem::take(&mut is_asking) };
                is_asking = words[0] == b"ASKING";
                let mut world = self.world.lock();
                if words[0] == b"SUBSCRIBE"
                    && let Some(connection) = world.connections.get_mut(&id)
                {
                    connection.is_listening = true;
                }
                let mut written = Vec::new();
                waited.unwrap_or_else(|| world.execute(caller, &words)).write(&mut written);
                last = last.max(Instant::now() + world.delay(node, server));
                drop(world);
                // If the client is gone, what it sent is executed all the same.
                _ = replies.send((last, written));
            }
        }
        self.world.lock().connections.remove(&id);
    }

    /// How many replicas have what was written before: one at most, after the time that it is behind.
    async fn wait(&self, server: usize, words: &[Vec<u8>]) -> Reply {
        let number = words.get(2).and_then(|ms| std::str::from_utf8(ms).ok()?.parse().ok());
        let patience: u64 = number.unwrap_or(0);
        let lag = |world: &World| {
            let replica = world.servers.iter().any(|server| server.is_replica);
            world.pair.as_ref().and_then(|pair| pair.lag_ms(server)).filter(|_| replica)
        };
        let behind = lag(&self.world.lock()).filter(|lag| *lag <= patience);
        sleep(Duration::from_millis(behind.unwrap_or(patience))).await;
        // Unless it was promoted meanwhile.
        Reply::Int(i64::from(behind.and(lag(&self.world.lock())).is_some()))
    }

    async fn carry_down(
        self,
        mut to: WriteHalf<DuplexStream>,
        (node, server): (usize, usize),
        mut leaving: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>,
    ) {
        while let Some((at, bytes)) = leaving.recv().await {
            sleep_until(at).await;
            self.until(|world| (!world.link(node, server).down_blocked).then_some(())).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
}

impl World {
    /// Milliseconds since the history began.
    #[must_use]
    pub fn at_ms(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(0)
    }

    /// A link.
    #[must_use]
    pub fn link(&self, node: usize, server: usize) -> LinkState {
        self.links.get(&(node, server)).copied().unwrap_or_default()
    }

    /// Changes a link.
    pub fn set_link(&mut self, node: usize, server: usize, change: impl FnOnce(&mut LinkState)) {
        change(self.links.entry((node, server)).or_default());
    }

    /// Breaks the connections that this names by node and server. What was on its way is lost.
    pub fn reset(&mut self, which: impl Fn(usize, usize) -> bool) {
        self.connections.retain(|_, connection| {
            let breaks = which(connection.node, connection.server);
            if breaks {
                connection.tasks.iter().for_each(AbortHandle::abort);
            }
            !breaks
        });
    }

    fn delay(&mut self, node: usize, server: usize) -> Duration {
        let LinkState { delay_ms: (shortest, longest), lost, .. } = self.link(node, server);
        let mut ms = self.random.u64(shortest..=longest);
        if lost > 0 && self.random.u64(0..1_000) < lost {
            ms += 200;
        }
        Duration::from_millis(ms)
    }

    fn health(&self, server: usize) -> Health {
        self.servers.get(server).map_or(Health::Up, |server| server.health)
    }

    /// The replica is promoted. The sentinels tell those who listen.
    pub fn promote(&mut self) {
        let at_ms = self.at_ms();
        let Some(pair) = &mut self.pair else { return };
        // A replica that is none yet knows nothing.
        if !self.servers[1 - pair.primary].is_replica {
            return;
        }
        let keys = pair.promote(at_ms);
        let promoted = &mut self.servers[pair.primary];
        (promoted.keyspace, promoted.is_replica) = (keys, false);
        let mut news = Vec::new();
        Pair::news().write(&mut news);
        let listening: Vec<(usize, usize, Packets)> = self
            .connections
            .values()
            .filter(|one| one.is_listening && !pair.keeps_from(one.node))
            .map(|one| (one.node, one.server, one.replies.clone()))
            .collect();
        for (node, server, replies) in listening {
            let at = Instant::now() + self.delay(node, server);
            _ = replies.send((at, news.clone()));
        }
    }

    /// The server that is not the primary becomes its replica.
    pub fn demote(&mut self) {
        if let Some(pair) = &mut self.pair {
            pair.join();
            self.servers[1 - pair.primary].is_replica = true;
        }
    }

    /// One more key of a slot moves to where the slot does; false if there is none left.
    pub fn move_one(&mut self, slot: u16, from: usize, to: usize) -> bool {
        let at_ms = self.at_ms();
        let then_us = self.servers[to].now_us(at_ms);
        let now_us = self.servers[from].now_us(at_ms);
        let mut target = std::mem::take(&mut self.servers[to].keyspace);
        let is = |key: &[u8]| slot_of(key) == slot;
        let moved = self.servers[from].keyspace.move_one(now_us, is, (&mut target, then_us));
        self.servers[to].keyspace = target;
        moved
    }

    fn execute(&mut self, caller: Caller, words: &[Vec<u8>]) -> Reply {
        let at_ms = self.at_ms();
        let tampered = self.plant.tampers(words);
        let words = tampered.as_deref().unwrap_or(words);
        let again = self.plant.repeats(words, &mut self.random);
        let Self { servers, slots, pair, .. } = self;
        let Caller { node, server: number, .. } = caller;
        let Some(server) = servers.get_mut(number) else {
            let sentinel = number - servers.len();
            let silent = || Reply::Error("ERR not a sentinel".into());
            return pair
                .as_ref()
                .map_or_else(silent, |pair| pair.say(at_ms, node, sentinel, words));
        };
        let client = (caller, slots.as_ref());
        let mut reply = server.execute(at_ms, client, words);
        if again {
            reply = server.execute(at_ms, client, words);
        }
        if let Some(pair) = pair {
            pair.note(at_ms, number, &server.keyspace);
        }
        reply
    }
}

impl SimulatedNetwork for Network {
    fn dial(&self, host: &str, _port: u16) -> Dialled {
        let mut parts = host.split('.').map(|part| part[1..].parse().ok());
        let (node, server) = (parts.next().flatten(), parts.next().flatten());
        let (Some(node), Some(server)) = (node, server) else {
            return Box::pin(async { Err(io::ErrorKind::NotFound.into()) });
        };
        Box::pin(self.clone().connect(node, server))
    }
}

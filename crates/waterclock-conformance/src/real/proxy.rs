//! A bad network between a client and a Redis.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use waterclock::{Clock, MonotonicClock, Timestamp};

use super::listener;

/// A loopback TCP proxy whose faults are chosen while it runs.
///
/// A fault applies to all connections and to each reply from then on. Requests are always forwarded: Redis executes them
/// even if the client never learns of it.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
    acceptor: Option<JoinHandle<()>>,
}

/// What happens to replies.
#[derive(Clone, Debug, Default)]
enum Fault {
    #[default]
    None,
    Delay(Duration),
    Latency(Duration),
    Garbage(Vec<u8>),
    Truncate,
    Swallow,
    Refuse,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    closing: Condvar,
    clock: MonotonicClock,
    connections: AtomicU64,
    round_trips: AtomicU64,
    request_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    fault: Fault,
    /// From here nothing gets through, nor back.
    isolated: Option<IpAddr>,
    closed: bool,
    /// Both ends of the open connections, to be able to cut them.
    open: HashMap<u64, [TcpStream; 2]>,
}

impl Proxy {
    /// Starts a proxy to a loopback port. It forwards everything until a fault is chosen.
    pub fn start(upstream_port: u16) -> Self {
        let listener = listener();
        let port = listener.local_addr().expect("a listener has an address").port();
        let shared = Arc::new(Shared {
            upstream: SocketAddr::from((Ipv4Addr::LOCALHOST, upstream_port)),
            state: Mutex::new(State::default()),
            closing: Condvar::new(),
            clock: MonotonicClock::default(),
            connections: AtomicU64::new(0),
            round_trips: AtomicU64::new(0),
            request_bytes: AtomicU64::new(0),
        });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        });
        Self { shared, port, acceptor: Some(acceptor) }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where to connect to: `127.0.0.1:PORT`.
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where to connect to, as a URL: `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// No fault: forwards replies. Replies that were swallowed before stay lost.
    pub fn pass(&self) {
        self.set(Fault::None);
    }

    /// Delays each piece of a reply, one after the other.
    pub fn delay(&self, by: Duration) {
        self.set(Fault::Delay(by));
    }

    /// Forwards each piece of a reply so long after it came, as a longer way does: pieces do not wait for each other.
    pub fn latency(&self, by: Duration) {
        self.set(Fault::Latency(by));
    }

    /// Replaces each piece of a reply with these bytes.
    pub fn garbage(&self, bytes: impl Into<Vec<u8>>) {
        self.set(Fault::Garbage(bytes.into()));
    }

    /// Cuts a reply in the middle and closes the connection.
    pub fn truncate(&self) {
        self.set(Fault::Truncate);
    }

    /// Forwards requests and drops replies. A connection that lost a reply stays mute until it is closed, whatever is
    /// chosen later, because TCP does not lose bytes and then continue.
    pub fn swallow_replies(&self) {
        self.set(Fault::Swallow);
    }

    /// Accepts new connections and closes them at once. Open ones stay until [`Proxy::drop_all`].
    pub fn refuse(&self) {
        self.set(Fault::Refuse);
    }

    /// Closes the connections that are open now.
    pub fn drop_all(&self) {
        self.shared.state.lock().cut_all();
    }

    /// Isolates the upstream from clients at one address: whatever they send is lost, and whatever is sent to them.
    /// As in a real partition, connections stay open.
    pub fn isolate_from(&self, address: impl Into<IpAddr>) {
        self.shared.state.lock().isolated = Some(address.into());
    }

    /// Ends the isolation. Connections of the time before are closed: they have lost bytes.
    pub fn rejoin(&self) {
        let mut state = self.shared.state.lock();
        if let Some(address) = state.isolated.take() {
            let is_isolated = |ends: &[TcpStream; 2]| address_of(&ends[0]) == Some(address);
            for (_, ends) in state.open.extract_if(|_, ends| is_isolated(ends)) {
                cut(&ends);
            }
        }
    }

    /// How many connections were accepted so far, refused ones included.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// How many pieces of requests were forwarded so far. For a client that sends one request, or
    /// one pipeline, at a time these are its round trips.
    pub fn round_trips(&self) -> u64 {
        self.shared.round_trips.load(Ordering::Relaxed)
    }

    /// How many bytes of requests were forwarded so far.
    pub fn request_bytes(&self) -> u64 {
        self.shared.request_bytes.load(Ordering::Relaxed)
    }

    fn set(&self, fault: Fault) {
        self.shared.state.lock().fault = fault;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.closed = true;
            state.cut_all();
        }
        self.shared.closing.notify_all();
        // Wakes the acceptor, which waits for the threads of its connections before it ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl State {
    fn cut_all(&mut self) {
        for ends in self.open.drain().map(|(_, ends)| ends) {
            cut(&ends);
        }
    }
}

impl Shared {
    fn accept(&self, listener: &TcpListener) {
        thread::scope(|scope| {
            for client in listener.incoming() {
                let refuse = {
                    let state = self.state.lock();
                    if state.closed {
                        return;
                    }
                    matches!(state.fault, Fault::Refuse)
                };
                let Ok(client) = client else { continue };
                let number = self.connections.fetch_add(1, Ordering::Relaxed);
                if !refuse {
                    scope.spawn(move || self.serve(number, client));
                }
            }
        });
    }

    /// Forwards one connection until either end closes it.
    fn serve(&self, number: u64, client: TcpStream) {
        let Ok(redis) = TcpStream::connect(self.upstream) else { return };
        let _ = (client.set_nodelay(true), redis.set_nodelay(true));
        let (Ok(client_end), Ok(redis_end)) = (client.try_clone(), redis.try_clone()) else {
            return;
        };
        {
            let mut state = self.state.lock();
            if state.closed {
                return;
            }
            state.open.insert(number, [client_end, redis_end]);
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                self.requests(&client, &redis);
                cut([&client, &redis]);
            });
            self.replies(&redis, &client);
            cut([&client, &redis]);
        });
        self.state.lock().open.remove(&number);
    }

    fn requests(&self, mut client: &TcpStream, mut redis: &TcpStream) {
        let mut buffer = [0; 65536];
        while let Ok(length @ 1..) = client.read(&mut buffer) {
            self.round_trips.fetch_add(1, Ordering::Relaxed);
            self.request_bytes.fetch_add(length as u64, Ordering::Relaxed);
            if !self.is_isolated(client) && redis.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    }

    fn replies(&self, redis: &TcpStream, mut client: &TcpStream) {
        let (late, due) = mpsc::channel::<(Timestamp, Vec<u8>)>();
        thread::scope(|scope| {
            scope.spawn(move || {
                for (at, piece) in due {
                    self.sleep_unless_closed(at.since(self.clock.now()));
                    if client.write_all(&piece).is_err() {
                        return;
                    }
                }
            });
            self.forward_replies(redis, client, &Late(late));
        });
    }

    fn forward_replies(&self, mut redis: &TcpStream, mut client: &TcpStream, late: &Late) {
        let mut buffer = [0; 65536];
        let (mut mute, mut is_late) = (false, false);
        while let Ok(length @ 1..) = redis.read(&mut buffer) {
            let reply = &buffer[..length];
            let fault = self.state.lock().fault.clone();
            let passed = match fault {
                _ if mute || self.is_isolated(client) => Ok(()),
                Fault::Latency(by) => {
                    is_late = true;
                    late.pass_at(self.clock.now().after(by), reply)
                }
                // Not before what is on its way.
                Fault::None | Fault::Refuse if is_late => late.pass_at(Timestamp::ZERO, reply),
                Fault::None | Fault::Refuse => client.write_all(reply),
                Fault::Delay(by) => {
                    self.sleep_unless_closed(by);
                    client.write_all(reply)
                }
                Fault::Garbage(bytes) => client.write_all(&bytes),
                Fault::Truncate => {
                    let _ = client.write_all(&reply[..length / 2]);
                    return;
                }
                Fault::Swallow => {
                    mute = true;
                    Ok(())
                }
            };
            if passed.is_err() {
                return;
            }
        }
    }

    fn is_isolated(&self, client: &TcpStream) -> bool {
        let isolated = self.state.lock().isolated;
        isolated.is_some() && address_of(client) == isolated
    }

    /// Sleeps, unless the proxy is closed.
    fn sleep_unless_closed(&self, by: Duration) {
        let mut state = self.state.lock();
        self.closing.wait_while_for(&mut state, |state| !state.closed, by);
    }
}

/// Pieces of replies that are passed on later, in their order.
struct Late(mpsc::Sender<(Timestamp, Vec<u8>)>);

impl Late {
    fn pass_at(&self, at: Timestamp, piece: &[u8]) -> io::Result<()> {
        self.0.send((at, piece.to_vec())).map_err(io::Error::other)
    }
}

fn address_of(client: &TcpStream) -> Option<IpAddr> {
    client.peer_addr().ok().map(|address| address.ip())
}

/// Closes both ends; one may be closed already.
fn cut<'a>(ends: impl IntoIterator<Item = &'a TcpStream>) {
    for end in ends {
        let _ = end.shutdown(Shutdown::Both);
    }
}

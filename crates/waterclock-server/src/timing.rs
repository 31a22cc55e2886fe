//! Timeouts and bounds of a server.

use std::time::Duration;

/// Timeouts and bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long the server still serves after it reports that it is not ready: time for load balancers to notice.
    pub lame_duck: Duration,
    /// How long an idle connection must be quiet before draining closes it: a request may be on its way. A connection of
    /// the Redis protocol that is never quiet is closed after four times as long.
    pub quiet: Duration,
    /// How long requests may take to finish when the server drains. With the rest of [`Timing::default`], a server stops
    /// within 5 s.
    pub drain: Duration,
    /// Between two events of a live feed.
    pub live_every: Duration,
    /// Timeouts of peers.
    pub patience: Patience,
    /// How many of each are served at once.
    pub room: Room,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            lame_duck: Duration::from_secs(1),
            quiet: Duration::from_millis(250),
            drain: Duration::from_secs(3),
            live_every: Duration::from_secs(1),
            patience: Patience::default(),
            room: Room::default(),
        }
    }
}

/// How many are served at once; more are rejected.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Requests being decided, of all faces together.
    pub requests: usize,
    /// Live feeds.
    pub live: usize,
    /// Health watches of gRPC.
    pub watches: usize,
    /// Callers in line.
    pub waits: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room { requests: 4_096, live: 64, watches: 1_024, waits: 8_192 }
    }
}

/// Timeouts of peers.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the first byte of a request to the end of its head; also a TLS handshake, and a peer's side of closing a
    /// connection.
    pub head: Duration,
    /// From the end of a head to the end of its body.
    pub body: Duration,
    /// From the first byte of a command of the Redis protocol to the last.
    pub command: Duration,
    /// Without any request.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            head: Duration::from_secs(5),
            body: Duration::from_secs(10),
            command: Duration::from_secs(10),
            idle: Duration::from_secs(60),
        }
    }
}

//! What a server waits for, and for how many it has room.

use std::time::Duration;

use crate::pace::Patience;

/// How long a server waits, and for how many it has room.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Not ready, but still serving: time for balancers to notice.
    pub lame_duck: Duration,
    /// When the server drains, a connection at rest is closed only after so long without a request:
    /// one that is on its way must not meet a closed connection.
    pub quiet: Duration,
    /// For requests under way when the server drains.
    pub drain: Duration,
    /// Between two events of a live feed.
    pub live_every: Duration,
    /// With peers.
    pub patience: Patience,
    /// Not time, but bounds like the others.
    pub room: Room,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            lame_duck: Duration::from_secs(1),
            quiet: Duration::from_millis(250),
            drain: Duration::from_secs(10),
            live_every: Duration::from_secs(1),
            patience: Patience::default(),
            room: Room::default(),
        }
    }
}

/// How many are served at once; more are turned away.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Open connections, of all faces together.
    pub connections: usize,
    /// Requests that are being decided.
    pub requests: usize,
    /// Live feeds that are read.
    pub live: usize,
}

impl Default for Room {
    fn default() -> Room {
        Room { connections: 10_000, requests: 4_096, live: 64 }
    }
}

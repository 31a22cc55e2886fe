//! How many nodes share the store: each announces itself, and learns how many do.
//!
//! Redis keeps three numbers, however many nodes there are: an epoch of its clock, how many were counted in it, and how
//! many in the one before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::time::{Instant, sleep};
use waterclock::{Failure, StoreError};

use crate::call::bad_reply;
use crate::direct::Direct;
use crate::link::Request;
use crate::script::NODES;

/// An epoch: a node is counted once in each.
const EPOCH_SECONDS: u64 = 10;
/// At least twice in an epoch, so that one call may be lost.
const EVERY: Duration = Duration::from_secs(4);
/// For how long every reply must say that there are fewer before they are. A server that lost its state counts all again
/// in the next epoch: until then, and until each has called twice in it, it says too few.
const FEWER_AFTER: Duration = Duration::from_secs(2 * EPOCH_SECONDS);
/// After the user turned out not to be permitted to.
const NOT_PERMITTED: Duration = Duration::from_secs(600);

/// What this node knows of the others.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// Whether this node announces itself.
    announces: bool,
    is_running: AtomicBool,
    alive: Mutex<Alive>,
    counted: tokio::sync::Mutex<Counted>,
}

/// How many nodes are alive.
#[derive(Debug, Default)]
struct Alive {
    /// This one included; none if that is not known.
    nodes: Option<u64>,
    /// Since when every reply has said that there are fewer.
    fewer_since: Option<Instant>,
}

impl Alive {
    fn note(&mut self, nodes: u64, now: Instant) {
        if self.nodes.is_some_and(|known| nodes < known)
            && now - *self.fewer_since.get_or_insert(now) < FEWER_AFTER
        {
            return;
        }
        *self = Self { nodes: Some(nodes), fewer_since: None };
    }
}

/// In which epoch this node was counted.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Never,
    In(u64),
    /// The last call had no answer.
    Perhaps,
    /// It is not to be counted any more.
    Left,
}

impl Nodes {
    pub(crate) fn new(announces: bool) -> Self {
        Self {
            announces,
            is_running: AtomicBool::new(false),
            alive: Mutex::default(),
            counted: tokio::sync::Mutex::new(Counted::Never),
        }
    }

    pub(crate) fn alive(&self) -> Option<u64> {
        self.alive.lock().nodes
    }
}

impl Direct {
    /// Announces this node now and then, for as long as the store lives.
    pub(crate) fn start_announcing(&self) {
        if !self.nodes.announces || self.nodes.is_running.swap(true, Ordering::Relaxed) {
            return;
        }
        let weak = self.downgrade();
        tokio::spawn(async move {
            loop {
                let Some(direct) = Direct::upgrade(&weak) else { return };
                let announced = direct.announce("").await;
                drop(direct);
                let is_forbidden = announced.is_err_and(|error| is_forbidden(&error));
                sleep(if is_forbidden { NOT_PERMITTED } else { EVERY }).await;
            }
        });
    }

    /// Announces this node once. A warning if its user is not permitted to, which is no reason not to serve.
    pub(crate) async fn try_to_announce(&self) -> Option<String> {
        if !self.nodes.announces {
            return None;
        }
        let error = self.announce("").await.err().filter(is_forbidden)?;
        Some(format!("cannot count the servers that share the store: {error}"))
    }

    /// Takes this node out of the count.
    pub(crate) async fn leave(&self) {
        if self.nodes.announces {
            _ = self.announce("leave").await;
            *self.nodes.counted.lock().await = Counted::Left;
        }
    }

    async fn announce(&self, how: &str) -> Result<(), StoreError> {
        let mut counted = self.nodes.counted.lock().await;
        let last = match *counted {
            Counted::Never => String::new(),
            Counted::In(epoch) => epoch.to_string(),
            Counted::Perhaps => "?".to_owned(),
            Counted::Left => return Ok(()),
        };
        let key = self.keyspace.nodes();
        let args = [last, EPOCH_SECONDS.to_string(), how.to_owned()].map(String::into_bytes);
        let request =
            Request::Script { script: &NODES, keys: vec![key.clone()], args: args.into() };
        let reply = self.route.send(key.slot, request, Instant::now() + self.deadline).await;
        match reply.as_deref() {
            Ok([Value::Int(epoch), Value::Int(alive)]) => {
                *counted = Counted::In(u64::try_from(*epoch).unwrap_or(0));
                let alive = u64::try_from(*alive).unwrap_or(1);
                self.nodes.alive.lock().note(alive, Instant::now());
                Ok(())
            }
            Ok(_) => Err(bad_reply()),
            Err(error) => {
                if error.may_have_charged() {
                    *counted = Counted::Perhaps;
                }
                Err(error.clone())
            }
        }
    }
}

fn is_forbidden(error: &StoreError) -> bool {
    error.failure() == Some(Failure::Auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_count_only_after_two_epochs_of_replies() {
        let (start, mut alive) = (Instant::now(), Alive::default());
        let mut note = |second, nodes| {
            alive.note(nodes, start + Duration::from_secs(second));
            alive.nodes.unwrap()
        };
        assert_eq!(note(0, 3), 3);
        assert_eq!(note(4, 4), 4, "more at once");
        // However long there was no reply before the first that says so.
        assert_eq!(note(100, 1), 4);
        assert_eq!(note(119, 2), 4);
        assert_eq!(note(120, 2), 2);
        assert_eq!(note(124, 1), 2);
        assert_eq!(note(140, 2), 2, "not every reply");
        assert_eq!(note(144, 1), 2);
        assert_eq!(note(163, 1), 2);
        assert_eq!(note(164, 1), 1);
    }
}

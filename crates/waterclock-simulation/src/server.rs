//! A simulated Redis: its keys, its clock, the scripts that it has been given.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cluster::{Caller, Slots};
use crate::keyspace::Keyspace;
use crate::lua;
use crate::plant::Plant;
use crate::resp::Reply;

/// What the clocks of servers show when a history begins, in microseconds.
const EPOCH_US: u64 = 1_700_000_000_000_000;

/// Whether a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers.
    Up,
    /// It is stopped: connections are accepted, and nothing is answered until it goes on.
    Stopped,
    /// Nothing listens.
    Down,
}

/// A script call that a server has executed.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Virtual time.
    pub at_ms: u64,
    /// By the server's clock.
    pub now_us: u64,
    /// Its keys.
    pub keys: Vec<Vec<u8>>,
    /// What else it was given.
    pub args: Vec<Vec<u8>>,
    /// Its text.
    pub source: Arc<str>,
}

/// One server.
#[derive(Debug)]
pub struct Server {
    /// What it keeps.
    pub keyspace: Keyspace,
    /// How far its clock is ahead of virtual time.
    pub ahead_us: i64,
    /// Whether it runs.
    pub health: Health,
    /// Whether it refuses to write, because another is the primary.
    pub is_replica: bool,
    scripts: BTreeMap<String, Arc<str>>,
    /// What it has executed, in order.
    pub executed: Vec<Execution>,
    plant: Plant,
}

impl Server {
    /// A server without keys.
    #[must_use]
    pub fn new(ahead_us: i64, plant: Plant) -> Self {
        Self {
            keyspace: Keyspace::default(),
            ahead_us,
            health: Health::Up,
            is_replica: false,
            scripts: BTreeMap::new(),
            executed: Vec::new(),
            plant,
        }
    }

    /// What its clock shows.
    #[must_use]
    pub fn now_us(&self, at_ms: u64) -> u64 {
        (EPOCH_US + at_ms * 1_000).saturating_add_signed(self.ahead_us)
    }

    /// It forgets its scripts, as after a restart.
    pub fn flush_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Executes a command.
    pub fn execute(
        &mut self,
        at_ms: u64,
        (caller, slots): (Caller, Option<&Slots>),
        words: &[Vec<u8>],
    ) -> Reply {
        let text = |i: usize| words.get(i).map(|word| String::from_utf8_lossy(word).into_owned());
        let name = text(0).unwrap_or_default().to_ascii_uppercase();
        match &*name {
            "HELLO" => Reply::Map(vec![
                Reply::text("server"),
                Reply::text("redis"),
                Reply::text("proto"),
                Reply::Int(3),
            ]),
            "PING" => Reply::Status("PONG".into()),
            "CLIENT" | "SELECT" | "ASKING" => Reply::ok(),
            "INFO" => {
                let role = if self.is_replica { "slave" } else { "master" };
                Reply::text(format!("role:{role}\r\nmaxmemory_policy:noeviction\r\n"))
            }
            "CLUSTER" => slots.map_or_else(
                || Reply::Error("ERR This instance has cluster support disabled".into()),
                |slots| slots.map(caller.node),
            ),
            "EVAL" => {
                let source: Arc<str> = text(1).unwrap_or_default().into();
                self.scripts.insert(digest(&source), Arc::clone(&source));
                self.script(at_ms, (caller, slots), &source, &words[2..])
            }
            "EVALSHA" => match self.scripts.get(&text(1).unwrap_or_default()).cloned() {
                Some(source) => self.script(at_ms, (caller, slots), &source, &words[2..]),
                None => Reply::Error("NOSCRIPT No matching script.".into()),
            },
            _ => Reply::Error(format!("ERR unknown command '{name}'")),
        }
    }

    fn script(
        &mut self,
        at_ms: u64,
        (caller, slots): (Caller, Option<&Slots>),
        source: &Arc<str>,
        rest: &[Vec<u8>],
    ) -> Reply {
        let count = rest.first().and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
        let Some((keys, args)) = count.and_then(|n: usize| rest[1..].split_at_checked(n)) else {
            return Reply::Error("ERR Number of keys can't be greater than number of args".into());
        };
        let now_us = self.now_us(at_ms);
        if let Some(refused) =
            slots.and_then(|slots| slots.refuses(caller, keys, (&self.keyspace, now_us)))
        {
            return refused;
        }
        if self.is_replica {
            let reason = "READONLY Can not run script with write flag on readonly replica.";
            return Reply::Error(reason.into());
        }
        let (all, text) = (args.to_vec(), Arc::clone(source));
        self.executed.push(Execution {
            at_ms,
            now_us,
            keys: keys.to_vec(),
            args: all,
            source: text,
        });
        match self.plant.script(source) {
            Some(planted) => lua::run(&planted, &mut self.keyspace, now_us, keys, args),
            None => lua::run(source, &mut self.keyspace, now_us, keys, args),
        }
    }
}

/// The digest by which a script is called.
fn digest(source: &str) -> String {
    thread_local! {
        static KNOWN: RefCell<HashMap<String, String>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| match known.get(source) {
        Some(digest) => digest.clone(),
        None => {
            let digest = redis::Script::new(source).get_hash().to_owned();
            known.insert(source.to_owned(), digest.clone());
            digest
        }
    })
}

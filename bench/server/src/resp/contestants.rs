//! The Redis protocol contestants and their commands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::command::{Exchange, command};
use super::reply::Admits;
use crate::contestant::Contestant;
use crate::install::Installed;
use crate::keys::{NARROW, Quota, WIDE, all as all_keys, drawn};
use crate::process::Launch;
use crate::waterclock::{NARROW_POLICY, WIDE_POLICY, serving};

pub const GET: &str = "Redis GET";
pub const CELL: &str = "redis-cell CL.THROTTLE";
pub const THROTTLE: &str = "waterclock CL.THROTTLE";
const CHECK: &str = "waterclock RL.CHECK";
pub const THROTTLECRAB: &str = "throttlecrab THROTTLE";

/// What a contestant is asked.
pub struct Asks {
    /// What it must have been told beforehand.
    pub before: Vec<Exchange>,
    /// Everything passes.
    wide: Vec<Vec<u8>>,
    /// Passes twice.
    pub narrow: Option<Exchange>,
    pub admits: Admits,
}

/// How many commands there are: a multiple of the longest pipeline.
const COMMANDS: usize = 1 << 14;

impl Asks {
    /// `ask`: a command about a key that passes always, or twice.
    fn new(admits: Admits, ask: impl Fn(&str, bool) -> Vec<u8>) -> Self {
        let wide = drawn(COMMANDS).iter().map(|key| ask(key, false)).collect();
        let narrow = Some(Exchange::of([&ask("twice", true)]));
        Self { before: vec![], wide, narrow, admits }
    }

    pub fn in_pipelines_of(&self, each: usize) -> Arc<[Exchange]> {
        self.wide.chunks(each).map(Exchange::of).collect()
    }
}

pub fn all(installed: &Installed) -> Vec<Contestant<Asks>> {
    let contestant = |name: &str, launch, asks| Contestant { name: name.to_owned(), launch, asks };
    let ours = || Ok(serving(installed.waterclock.clone(), "resp"));
    let redis = |module: Option<PathBuf>| {
        let program = installed.redis.as_ref().map_err(String::clone)?;
        Ok(redis(program, module))
    };
    let cell = installed.cell.clone().and_then(|module| redis(Some(module)));
    let throttlecrab =
        installed.throttlecrab.as_ref().map(|program| throttlecrab(program)).map_err(String::clone);
    vec![
        contestant(GET, redis(None), get()),
        contestant(CELL, cell, Asks::new(Admits::FirstIs(b'0'), throttle)),
        contestant(THROTTLE, ours(), Asks::new(Admits::FirstIs(b'0'), throttle)),
        contestant(CHECK, ours(), Asks::new(Admits::FirstIs(b'1'), check)),
        contestant(THROTTLECRAB, throttlecrab, Asks::new(Admits::FirstIs(b'1'), its_throttle)),
    ]
}

/// Every key is there, with about as much as a limiter remembers.
fn get() -> Asks {
    let wide = drawn(COMMANDS).iter().map(|key| command(&["GET", key])).collect();
    let sets: Vec<Vec<u8>> =
        all_keys().map(|key| command(&["SET", &key, "1700000000000000"])).collect();
    let before = sets.chunks(100).map(Exchange::of).collect();
    Asks { before, wide, narrow: None, admits: Admits::Something }
}

/// It admits one more at once than its burst.
fn throttle(key: &str, narrow: bool) -> Vec<u8> {
    let Quota { limit, seconds } = quota(narrow);
    let (burst, limit, seconds) = ((limit - 1).to_string(), limit.to_string(), seconds.to_string());
    command(&["CL.THROTTLE", key, &burst, &limit, &seconds])
}

fn check(key: &str, narrow: bool) -> Vec<u8> {
    command(&["RL.CHECK", if narrow { NARROW_POLICY } else { WIDE_POLICY }, key])
}

fn its_throttle(key: &str, narrow: bool) -> Vec<u8> {
    let Quota { limit, seconds } = quota(narrow);
    let (limit, seconds) = (limit.to_string(), seconds.to_string());
    command(&["THROTTLE", key, &limit, &limit, &seconds])
}

fn quota(narrow: bool) -> Quota {
    if narrow { NARROW } else { WIDE }
}

fn redis(program: &Path, module: Option<PathBuf>) -> Launch {
    let program = program.to_owned();
    Box::new(move |port, directory| {
        let mut command = Command::new(&program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--loglevel", "warning"]);
        command.arg("--dir").arg(directory);
        if let Some(module) = &module {
            command.arg("--loadmodule").arg(module);
        }
        Ok(command)
    })
}

fn throttlecrab(program: &Path) -> Launch {
    let program = program.to_owned();
    Box::new(move |port, _| {
        let mut command = Command::new(&program);
        command.args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &port.to_string()]);
        Ok(command)
    })
}

//! The scripts. Each starts with `#!lua`: then Redis refuses to run it on a replica, and to touch a
//! key that was not declared.

use std::sync::LazyLock;

/// A script and the digest it is called by.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) source: &'static str,
    pub(crate) digest: String,
}

impl Script {
    fn new(source: &'static str) -> Self {
        let digest = redis::Script::new(source).get_hash().to_owned();
        Self { source, digest }
    }
}

/// Many checks of single whole-microsecond gcra limits.
pub(crate) static GCRA: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("gcra.lua")));
/// A script of these pieces.
macro_rules! pieces {
    ($($piece:literal),*) => {
        LazyLock::new(|| Script::new(concat!($(include_str!($piece)),*, "return reply\n")))
    };
}

/// One check of anything but the next: to define what a call does not need takes a fifth of its time.
pub(crate) static CHECK: LazyLock<Script> = pieces!["algorithms.lua", "records.lua", "check.lua"];
/// One check of policies some of which count what is held at once, or reports.
pub(crate) static CHECK_ANY: LazyLock<Script> =
    pieces!["algorithms.lua", "concurrency.lua", "breaker.lua", "records.lua", "check.lua"];
/// A check of what can be settled, on a server that does not keep the reservation.
pub(crate) static HOLD: LazyLock<Script> = pieces![
    "algorithms.lua",
    "hold.lua",
    "concurrency.lua",
    "breaker.lua",
    "records.lua",
    "check.lua"
];
/// A check of what can be settled, and the reservation by which it can.
pub(crate) static RESERVE: LazyLock<Script> = pieces![
    "algorithms.lua",
    "reserve.lua",
    "concurrency.lua",
    "breaker.lua",
    "records.lua",
    "check.lua",
    "keep.lua"
];
/// What is reported afterwards: debits and refunds.
pub(crate) static ADJUST: LazyLock<Script> = pieces![
    "algorithms.lua",
    "concurrency.lua",
    "breaker.lua",
    "debts.lua",
    "records.lua",
    "adjust.lua"
];
/// The same for a reservation that this server keeps.
pub(crate) static SETTLE: LazyLock<Script> = pieces![
    "algorithms.lua",
    "concurrency.lua",
    "breaker.lua",
    "debts.lua",
    "settling.lua",
    "records.lua",
    "adjust.lua",
    "settled.lua"
];
/// How something ended.
pub(crate) static REPORT: LazyLock<Script> =
    pieces!["algorithms.lua", "concurrency.lua", "breaker.lua", "records.lua", "report.lua"];
/// What is known of a reservation.
pub(crate) static LOOK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("look.lua")));
/// One record in another's place.
pub(crate) static REPLACE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("replace.lua")));
/// A policy's definition before its older ones.
pub(crate) static REMEMBER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("remember.lua")));

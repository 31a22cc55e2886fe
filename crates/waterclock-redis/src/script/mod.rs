//! The scripts. Each starts with `#!lua`: then Redis refuses to run it on a replica, and to touch a
//! key that was not declared.
//!
//! A script about policies is put together from pieces: to define the algorithms that a call does not need would take
//! most of its time.

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::RwLock;

/// A script and the digest it is called by.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) source: String,
    pub(crate) digest: String,
}

impl Script {
    fn new(source: impl Into<String>) -> Self {
        let source = source.into();
        let digest = redis::Script::new(&source).get_hash().to_owned();
        Self { source, digest }
    }
}

macro_rules! fixed {
    ($($file:literal),*) => {
        LazyLock::new(|| Script::new(concat!($(include_str!($file)),*)))
    };
}

/// Many checks of single whole-microsecond gcra limits.
pub(crate) static SHORT: LazyLock<Script> = fixed!("now.lua", "short.lua");
/// What is known of a reservation.
pub(crate) static LOOK: LazyLock<Script> = fixed!("now.lua", "look.lua");
/// One reservation in another's place.
pub(crate) static REPLACE: LazyLock<Script> = fixed!("now.lua", "replace.lua");
/// What was charged stands, and is not given back when its time is over.
pub(crate) static CONFIRM: LazyLock<Script> = fixed!("now.lua", "confirm.lua");
/// Another override before a record, or none.
pub(crate) static PUT_OVERRIDE: LazyLock<Script> = fixed!("now.lua", "put_override.lua");
/// The overrides before records.
pub(crate) static OVERRIDDEN: LazyLock<Script> = fixed!("now.lua", "overridden.lua");
/// Which keys have an override.
pub(crate) static LISTED: LazyLock<Script> = fixed!("now.lua", "listed.lua");
/// Takes a key off that list.
pub(crate) static UNLIST: LazyLock<Script> = fixed!("now.lua", "unlist.lua");
/// Removes records.
pub(crate) static RESET: LazyLock<Script> = fixed!("now.lua", "reset.lua");
/// The tag of a policy's definition.
pub(crate) static REGISTER: LazyLock<Script> = fixed!("register.lua");
/// How many nodes are alive.
pub(crate) static NODES: LazyLock<Script> = fixed!("nodes.lua");
/// Policies that are kept as text.
pub(crate) static KEPT: LazyLock<Script> = fixed!("kept.lua");
/// A definition of a policy, by its tag.
pub(crate) static DEFINITION: LazyLock<Script> = fixed!("definition.lua");

/// What a script about policies does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Checks, peeks and refunds, independent of each other.
    Check,
    /// The same, with the marks by which a charge is undone.
    Marked,
    /// A check of what is held for a reservation that another server keeps.
    Hold,
    /// A check, and the reservation by which it can be settled.
    Reserve,
    Debit,
    /// What a reservation that this server keeps owes or gives back.
    Settle,
    /// The same for one that another server keeps.
    Finish,
    Undo,
    Report,
}

/// The algorithms that a script needs, each a bit, and whether it gives back what is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Algorithms(u16);

/// The pieces, by the letter that the scripts know an algorithm by.
const PIECES: [(u8, &str); 10] = [
    (b'g', include_str!("gcra.lua")),
    (b'l', include_str!("leaky.lua")),
    (b'f', include_str!("fixed.lua")),
    (b's', include_str!("sliding.lua")),
    (b'q', include_str!("quota.lua")),
    (b'e', include_str!("even.lua")),
    (b'm', include_str!("interval.lua")),
    (b'r', include_str!("rolling.lua")),
    (b'c', include_str!("concurrency.lua")),
    (b'b', include_str!("breaker.lua")),
];

/// The bit behind those of the algorithms.
const DUE: u16 = 1 << PIECES.len();

impl Algorithms {
    /// The same, with what gives back what is due.
    pub(crate) fn with_due(self) -> Self {
        Self(self.0 | DUE)
    }

    fn has_due(self) -> bool {
        self.0 & DUE != 0
    }

    pub(crate) fn of(codes: impl IntoIterator<Item = u8>) -> Self {
        codes.into_iter().fold(Self::default(), |all, code| {
            let bit = PIECES.iter().position(|(letter, _)| *letter == code);
            Self(all.0 | bit.map_or(0, |bit| 1 << bit))
        })
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn pieces(self) -> impl Iterator<Item = (u8, &'static str)> {
        PIECES.into_iter().enumerate().filter(move |(i, _)| self.0 >> i & 1 == 1).map(|(_, p)| p)
    }

    fn any(self, codes: &[u8]) -> bool {
        self.0 & Self::of(codes.iter().copied()).0 != 0
    }
}

impl Kind {
    /// What follows the algorithms, and whether it needs what they do later.
    fn tail(self) -> (&'static [&'static str], bool) {
        const CHECK: &str = include_str!("check.lua");
        const ADJUST: &str = include_str!("adjust.lua");
        match self {
            Self::Check => (&[CHECK, include_str!("checks.lua")], false),
            Self::Marked => (&[CHECK, include_str!("checks.lua")], true),
            Self::Hold => (&[CHECK, include_str!("hold.lua")], true),
            Self::Reserve => (&[CHECK, include_str!("reserve.lua")], false),
            Self::Debit => (&[ADJUST, include_str!("debit.lua")], true),
            Self::Settle => (&[ADJUST, include_str!("settle.lua")], true),
            Self::Finish => (&[ADJUST, include_str!("finish.lua")], true),
            Self::Undo => (&[include_str!("undo.lua")], true),
            Self::Report => (&[include_str!("report.lua")], false),
        }
    }

    fn source(self, algorithms: Algorithms) -> String {
        let mut source = concat!(include_str!("now.lua"), include_str!("base.lua")).to_owned();
        if algorithms.any(b"gsqer") {
            source.push_str(include_str!("muldiv.lua"));
        }
        if algorithms.any(b"rcb") {
            source.push_str(include_str!("ring.lua"));
        }
        let (tail, needs_later) = self.tail();
        for (_, piece) in algorithms.pieces() {
            let now = piece.split_once("-- later\n").map_or(piece, |(now, _)| now);
            source.push_str(if needs_later || algorithms.has_due() { piece } else { now });
        }
        source.push_str(include_str!("records.lua"));
        // What undoes a charge stands there, whether or not anything is due of its key.
        if algorithms.has_due() || self == Self::Undo {
            source.push_str(include_str!("due.lua"));
        }
        tail.iter().for_each(|piece| source.push_str(piece));
        source
    }

    /// The script for policies of these algorithms.
    pub(crate) fn script(self, algorithms: Algorithms) -> &'static Script {
        static MADE: LazyLock<RwLock<HashMap<(Kind, Algorithms), &'static Script>>> =
            LazyLock::new(RwLock::default);
        let reports =
            if self == Self::Report { Algorithms::of(*b"b") } else { Algorithms::default() };
        let algorithms = algorithms.and(reports);
        if let Some(script) = MADE.read().get(&(self, algorithms)) {
            return script;
        }
        // There are only so many combinations, and few are used.
        let made = || &*Box::leak(Box::new(Script::new(self.source(algorithms))));
        MADE.write().entry((self, algorithms)).or_insert_with(made)
    }
}

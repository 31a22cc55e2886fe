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
/// One check of anything.
pub(crate) static CHECK: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("algorithms.lua"),
        include_str!("records.lua"),
        include_str!("check.lua"),
        "return reply\n"
    ))
});
/// One debit of anything: apart from checks, which are many and need not carry what it takes.
pub(crate) static DEBIT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("algorithms.lua"),
        include_str!("debts.lua"),
        include_str!("records.lua"),
        include_str!("debit.lua")
    ))
});
/// One record in another's place.
pub(crate) static REPLACE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("replace.lua")));
/// A policy's definition before its older ones.
pub(crate) static REMEMBER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("remember.lua")));

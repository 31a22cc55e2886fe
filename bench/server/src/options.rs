//! The command line.

use std::time::Duration;

use waterclock_bench::flags::{Flags, expect_none};

pub const USAGE: &str = "usage: [--quick] [--rounds N] [--only http,layer,resp,grpc] [--json PATH]";

const CASES: [&str; 4] = ["http", "layer", "resp", "grpc"];

pub struct Options {
    pub flags: Flags,
    /// How long one measurement takes.
    pub time: Duration,
}

impl Options {
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (flags, others) = Flags::parse(args)?;
        expect_none(&others)?;
        flags.expect_only(&CASES)?;
        let time = Duration::from_millis(if flags.quick { 200 } else { 1_000 });
        Ok(Self { flags, time })
    }
}

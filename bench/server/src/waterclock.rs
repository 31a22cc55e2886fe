//! Our own server, set like its peers.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::keys::{NARROW, WIDE};
use crate::process::Launch;

/// The policy under which everything passes, and the one under which two requests pass.
pub const WIDE_POLICY: &str = "wide";
pub const NARROW_POLICY: &str = "narrow";

/// The server with one face on.
pub fn serving(program: PathBuf, face: &'static str) -> Launch {
    Box::new(move |port, directory| {
        let listens = |name| match name {
            name if name == face => format!("{name} = \"127.0.0.1:{port}\"\n"),
            name => format!("{name} = \"\"\n"),
        };
        let faces: String = ["http", "grpc", "resp"].into_iter().map(listens).collect();
        let (limit, seconds) = (WIDE.limit, WIDE.seconds);
        let (narrow, narrow_seconds) = (NARROW.limit, NARROW.seconds);
        let policies = format!(
            "[policies.{WIDE_POLICY}]\n\
             limits = [{{ algorithm = \"gcra\", limit = {limit}, per = \"{seconds}s\" }}]\n\
             [policies.{NARROW_POLICY}]\n\
             limits = [{{ algorithm = \"gcra\", limit = {narrow}, per = \"{narrow_seconds}s\" }}]\n"
        );
        let rule = |name| {
            format!(
                "[[rules]]\ndomain = \"{name}\"\npolicy = \"{name}\"\n\
                 descriptor = [{{ key = \"user\" }}]\n"
            )
        };
        // Only the face that asks by descriptor has rules.
        let rules = match face {
            "grpc" => [WIDE_POLICY, NARROW_POLICY].map(rule).concat(),
            _ => String::new(),
        };
        let file = directory.join("waterclock.toml");
        // CL.THROTTLE has the quota in the command: longer than the server allows by default.
        let longest = format!("max_throttle_period = \"{seconds}s\"\n");
        fs::write(&file, format!("[server]\n{faces}{longest}{policies}{rules}"))?;
        let mut command = Command::new(&program);
        command.arg("serve").arg("-c").arg(file);
        Ok(command)
    })
}

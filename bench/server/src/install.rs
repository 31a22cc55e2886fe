//! What is built or installed before anything is measured: only what is missing, once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use waterclock_bench::remote::build;

use crate::Error;
use crate::role;

/// Where things are, or why they are not.
pub struct Installed {
    pub waterclock: PathBuf,
    /// This program: it can be a server, too.
    pub itself: PathBuf,
    pub nginx: Result<PathBuf, String>,
    pub redis: Result<PathBuf, String>,
    /// redis-cell's module.
    pub cell: Result<PathBuf, String>,
    pub throttlecrab: Result<PathBuf, String>,
}

/// The last one there was when this was written.
const THROTTLECRAB: &str = "0.4.40";

impl Installed {
    pub fn all() -> Result<Self, Error> {
        Ok(Self {
            waterclock: waterclock()?,
            itself: std::env::current_exe()?,
            nginx: program("nginx", "-v"),
            redis: program("redis-server", "--version"),
            cell: build::cell(),
            throttlecrab: throttlecrab(),
        })
    }

    pub fn print_versions(&self) {
        let said = |program: &Path, flag| {
            let output = Command::new(program).arg(flag).output().ok()?;
            // nginx says it on the other channel.
            let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
            Some(String::from_utf8_lossy(&text).lines().next()?.to_owned())
        };
        let programs = [
            (Some(&self.waterclock), "--version"),
            (self.nginx.as_ref().ok(), "-v"),
            (self.redis.as_ref().ok(), "--version"),
            (self.throttlecrab.as_ref().ok(), "--version"),
        ];
        for (program, flag) in programs {
            println!("{}", program.and_then(|program| said(program, flag)).unwrap_or_default());
        }
    }
}

/// Without what `cargo run` tells this program about its own package: crates whose build scripts look at that would
/// be built again.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
        cargo.env_remove(name);
    }
    cargo
}

/// Ours, from the workspace around this one.
fn waterclock() -> Result<PathBuf, Error> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "waterclock-cli"]);
    build.args(["--message-format", "json-render-diagnostics", "--manifest-path"]).arg(manifest);
    let output = build.stderr(Stdio::inherit()).output()?;
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let built = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut built = built.filter_map(|said| Some(PathBuf::from(said["executable"].as_str()?)));
    built.next_back().ok_or_else(|| "waterclock does not build".into())
}

/// A program of the system, also from where administrators' programs are.
fn program(name: &str, flag: &str) -> Result<PathBuf, String> {
    let places = [PathBuf::from(name), Path::new("/usr/sbin").join(name)];
    let runs = |place: &PathBuf| {
        let mut command = Command::new(place);
        command.arg(flag).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    places.into_iter().find(runs).ok_or_else(|| "not installed".to_owned())
}

/// throttlecrab's server from the registry, beside our own build.
fn throttlecrab() -> Result<PathBuf, String> {
    let itself = std::env::current_exe().map_err(|error| error.to_string())?;
    let root = itself.ancestors().nth(2).unwrap_or(Path::new("target")).join("peers");
    let program = root.join("bin/throttlecrab-server");
    if !program.exists() {
        println!("Installing throttlecrab-server …");
        let mut install = cargo();
        install.args(["install", "throttlecrab-server", "--version", THROTTLECRAB, "--locked"]);
        install.args(["--quiet", "--root"]).arg(&root).stdin(Stdio::null());
        role::stand_in_for_protoc(&mut install, &itself);
        if !install.status().is_ok_and(|status| status.success()) {
            return Err(format!("{THROTTLECRAB} does not build from the registry"));
        }
    }
    Ok(program)
}

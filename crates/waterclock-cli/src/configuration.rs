//! The configuration that a command reads: `-c FILE` and `--policy NAME`.

use std::io;
use std::path::Path;

use waterclock_config::{Config, Invalid, PolicyConfig};

/// The file that is read when none is named.
const DEFAULT_FILE: &str = "waterclock.toml";

/// `waterclock.toml` in the current directory, unless there is nothing of this name. A link to nowhere and a file that
/// cannot be read are there, and loading them is an error.
pub(crate) fn default_file() -> Option<&'static Path> {
    let found = Path::new(DEFAULT_FILE).symlink_metadata();
    let is_missing = found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    (!is_missing).then_some(Path::new(DEFAULT_FILE))
}

/// Reads a file, or `waterclock.toml` in the current directory.
pub(crate) fn load(file: Option<&Path>) -> Result<Config, Invalid> {
    let missing =
        || format!("there is no {DEFAULT_FILE} in this directory; name a file with -c FILE");
    Config::load(file.or(default_file()).ok_or_else(missing)?)
}

/// Takes the policy of this name from a file, or the only one there is.
pub(crate) fn load_policy(
    file: Option<&Path>,
    name: Option<&str>,
) -> Result<PolicyConfig, Invalid> {
    let mut config = load(file)?;
    let is_missing = name.is_none() && config.policies.len() > 1;
    config.choose(name).map_err(|invalid| match is_missing {
        true => format!("{invalid} with --policy").into(),
        false => invalid,
    })
}

//! The configuration that a command reads: `-c FILE` and `--policy NAME`.

use std::path::Path;

use waterclock_config::{Config, Invalid, PolicyConfig};

/// The file that is read when none is named.
const DEFAULT_FILE: &str = "waterclock.toml";

/// Reads a file, or `waterclock.toml` in the current directory.
pub(crate) fn load(file: Option<&Path>) -> Result<Config, Invalid> {
    match file {
        None if !Path::new(DEFAULT_FILE).exists() => {
            Err(format!("there is no {DEFAULT_FILE} in this directory; name a file with -c FILE")
                .into())
        }
        _ => Config::load(file.unwrap_or(Path::new(DEFAULT_FILE))),
    }
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

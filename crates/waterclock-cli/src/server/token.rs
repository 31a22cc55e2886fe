//! The token that opens a server. Never an argument: those are there for everybody on the machine to see.

use std::path::{Path, PathBuf};

use http::HeaderValue;

use crate::failure::Failure;
use waterclock_config::cannot_read;

const VARIABLE: &str = "WATERCLOCK_TOKEN";

/// Where the token comes from.
#[derive(clap::Args)]
pub(crate) struct Token {
    /// A file with the token for the server [default: the variable WATERCLOCK_TOKEN, if it is set]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Token {
    /// Whether a file was named.
    pub(crate) fn is_given(&self) -> bool {
        self.token_file.is_some()
    }

    /// The token, if there is one.
    pub(crate) fn read(&self) -> Result<Option<String>, Failure> {
        let (place, text) = match &self.token_file {
            Some(path) => (path.display().to_string(), read(path)?),
            None => match std::env::var(VARIABLE) {
                Ok(text) => (VARIABLE.to_owned(), text),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(_) => (VARIABLE.to_owned(), "\u{fffd}".to_owned()),
            },
        };
        let text = text.trim();
        if text.is_empty() && self.token_file.is_none() {
            return Ok(None);
        }
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let sentence = format!("{place}: a token is one word of visible ASCII characters");
            return Err(sentence.into());
        }
        Ok(Some(text.to_owned()))
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let name = path.display().to_string();
    Ok(std::fs::read_to_string(path).map_err(|error| cannot_read(&name, &error))?)
}

/// As HTTP and gRPC send it.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

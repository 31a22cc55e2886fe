//! Settings whose values are kept outside the configuration: `${NAME}` in a setting is replaced by an environment
//! variable, and a setting `file:PATH` by the content of that file.

use std::env::{self, VarError};
use std::path::PathBuf;

use super::error::Invalid;
use super::error::Source;
use super::file::{MAX_SECRET_FILE, read_file};
use super::table::Field;

/// A setting as written in the file; its value is looked up when it is needed.
pub(crate) struct Setting {
    /// `waterclock.toml:2:7: ` and the setting's name: how errors about it begin.
    subject: String,
    text: String,
    /// Relative paths start from the directory of the configuration, wherever the command is run.
    directory: PathBuf,
}

impl Setting {
    /// The setting of a field that has been accepted.
    pub(crate) fn new(source: &Source, field: &Field<'_>, text: String) -> Setting {
        let subject = format!("{}: `{}`", source.place(field.at()), field.name);
        Setting { subject, text, directory: source.beside("") }
    }

    /// Looks up the value. It may be a secret, so errors do not repeat it.
    pub(crate) fn look_up(&self) -> Result<String, Invalid> {
        match self.text.strip_prefix("file:") {
            Some(path) => self.read(path),
            None => self.fill_in(),
        }
    }

    /// The file that holds the value, if one does.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.text.strip_prefix("file:").map(|path| self.directory.join(path))
    }

    /// The file of this name, where the setting is one.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(&self.text)
    }

    /// The setting as the file has it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the value is kept outside the configuration.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.text.starts_with("file:") || self.text.contains("${")
    }

    /// A sentence about it; the rest is half a sentence.
    pub(crate) fn error(&self, rest: impl AsRef<str>) -> Invalid {
        format!("{} {}", self.subject, rest.as_ref()).into()
    }

    fn read(&self, path: &str) -> Result<String, Invalid> {
        let path = self.directory.join(path);
        let name = path.display().to_string();
        let failed = |why: String| self.error(format!("is read from a file: {why}"));
        let bytes = read_file(&path, MAX_SECRET_FILE).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|_| failed(format!("{name}: is not UTF-8")))?;
        // Editors end a file with a newline, which is not part of the value.
        let value = text.trim_end_matches(['\r', '\n']);
        if value.is_empty() {
            return Err(self.error(format!("is read from {name}, which is empty")));
        }
        Ok(value.to_owned())
    }

    fn fill_in(&self) -> Result<String, Invalid> {
        let mut parts = self.text.split("${");
        let mut value = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            // `accept` has checked that the brace is closed.
            let (name, rest) = part.split_once('}').unwrap_or((part, ""));
            value += &self.variable(name)?;
            value += rest;
        }
        Ok(value)
    }

    fn variable(&self, name: &str) -> Result<String, Invalid> {
        let why = match env::var(name) {
            Ok(value) if !value.is_empty() => return Ok(value),
            Ok(_) => "is empty",
            Err(VarError::NotPresent) => "is not set",
            Err(VarError::NotUnicode(_)) => "is not UTF-8",
        };
        Err(self.error(format!("needs the environment variable `{name}`, which {why}")))
    }
}

/// Whether every variable in it has a name; an error is half a sentence.
pub(crate) fn accept(text: &str) -> Result<(), String> {
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
    };
    let is_well = |part: &str| part.split_once('}').is_some_and(|(name, _)| is_name(name));
    if text == "file:" {
        return Err("must name a file after `file:`".to_owned());
    }
    if text.starts_with("file:") || text.split("${").skip(1).all(is_well) {
        Ok(())
    } else {
        Err("must name environment variables as `${NAME}`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_names() {
        for text in ["", "plain", "${A}", "redis://${USER_1}:${_p}@h", "$A", "file:${", "}${A}}"] {
            assert_eq!(accept(text), Ok(()), "{text}");
        }
        for text in ["${", "${}", "${A", "${A}${", "${1A}", "${A B}", "file:"] {
            assert!(accept(text).is_err(), "{text}");
        }
    }
}

//! What commands write: files, and JSON.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;

/// Where a command says its words: standard output, unless somebody wants a page or a picture there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    Output,
    Beside,
}

impl Words {
    /// Only one thing can go to standard output. These are the flags that name files, and whether JSON goes there.
    pub(crate) fn beside(
        files: &[(&str, Option<&PathBuf>)],
        is_json: bool,
    ) -> Result<Words, Failure> {
        let is_output = |path: Option<&PathBuf>| path.is_some_and(|path| is_output(path));
        let flags = files.iter().filter(|(_, path)| is_output(*path)).map(|(flag, _)| *flag);
        let wanted: Vec<&str> = flags.chain(is_json.then_some("--json")).collect();
        match &*wanted {
            [] | ["--json"] => Ok(Words::Output),
            [_] => Ok(Words::Beside),
            [one, other, ..] => Err(format!(
                "{one} and {other} cannot both go to standard output; name a file instead of -"
            )
            .into()),
        }
    }

    pub(crate) fn stream(self) -> Box<dyn Write> {
        match self {
            Words::Output => Box::new(anstream::stdout().lock()),
            Words::Beside => Box::new(anstream::stderr().lock()),
        }
    }
}

fn is_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a file whole or says why not; `-` is standard output.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    if is_output(path) {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        return Ok(out.flush()?);
    }
    std::fs::write(path, text)
        .map_err(|error| format!("{}: cannot be written: {error}", path.display()).into())
}

/// Writes a line of JSON on standard output, byte by byte as it is: what makes text harmless for a terminal
/// would change it.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()
}

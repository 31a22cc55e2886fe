//! What commands write: files, and JSON.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// Writes a file whole or says why not.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
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

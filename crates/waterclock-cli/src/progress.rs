//! Input files, with a progress bar on terminals.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use waterclock_config::cannot_read;
use waterclock_rehearse::trace::{Format, Input, Reading};

use crate::output::{Failure, say};

/// Opens a file, with a progress bar if standard error is a terminal; `-` or nothing is standard input.
pub(crate) fn open_with_progress(path: Option<&Path>) -> Result<Input, Failure> {
    const TEMPLATE: &str = "{bar:30} {percent:>3}% of {total_bytes}  {eta} left  {msg}";
    let Some(path) = path.filter(|path| path.as_os_str() != "-" && io::stderr().is_terminal())
    else {
        return Ok(Input::open(path)?);
    };
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| cannot_read(&name, &error))?;
    // Only regular files know their length.
    let Some(length) =
        file.metadata().ok().filter(std::fs::Metadata::is_file).map(|about| about.len())
    else {
        return Ok(Input::new(name, file)?);
    };
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(10));
    let bar = match ProgressStyle::with_template(TEMPLATE) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    let input = Input::new(name, bar.wrap_read(file))?;
    let bar = ClearedBar(bar);
    Ok(input.observed_by(move |lines| {
        let seconds = bar.0.elapsed().max(Duration::from_millis(1)).as_secs_f64();
        bar.0.set_message(format!("{:.0} lines/s", lines as f64 / seconds));
    }))
}

/// Finds out the format of an input that --input does not name, and says so if it is an access log.
pub(crate) fn recognise(reading: &Reading, input: Input) -> Result<(Reading, Input), Failure> {
    let (reading, input) = reading.recognise(input)?;
    if let Some(format) = reading.recognised().filter(|format| *format != Format::Trace) {
        let (name, format) = (input.name(), format.name());
        say(&format!("note: {name} is read as --input {format}, by the look of its first lines"));
    }
    Ok((reading, input))
}

/// A progress bar that disappears when reading ends.
struct ClearedBar(ProgressBar);

impl Drop for ClearedBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

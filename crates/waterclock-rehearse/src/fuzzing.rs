//! Access logs, read on the thread of the caller: for fuzz targets, and no part of the API.

use waterclock_config::PolicyConfig;

use crate::Error;
use crate::trace::{Event, Format, Input, Reading};

/// The events of a log in the order in which they are decided, and why it ends early if it does. An error is one of the
/// flags, or of the first line.
pub fn events(
    reading: &Reading,
    format: Format,
    log: Vec<u8>,
    policy: &PolicyConfig,
) -> Result<(Vec<Event<'static>>, Result<(), Error>), Error> {
    let input = Input::new("log", std::io::Cursor::new(log))?;
    crate::trace::log::events(reading, format, input, policy)
}

//! The live view of a terminal.

mod draw;
mod palette;
mod table;
mod view;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use self::draw::draw;
use self::palette::Palette;
use self::view::View;
use super::feed::{Feed, News};
use crate::failure::Failure;

/// How soon news and keys are noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Until somebody has seen enough.
pub(in crate::verb::top) fn run(address: &str, feed: &Feed) -> Result<ExitCode, Failure> {
    let mut view = View::new(address);
    // Where the first look fails for good there is nothing to show, and the terminal stays as it is.
    let first = feed.next();
    if let News::Nothing(sentence) = first {
        return Err(sentence.into());
    }
    if view.take(first).is_end() {
        return Ok(ExitCode::SUCCESS);
    }
    // The terminal is given back before anything is said.
    let shown =
        Screen::take().and_then(|screen| screen.show(&mut view, feed)).map_err(|error| {
            format!("the terminal cannot be used: {error}; --once prints a plain table")
        })?;
    Ok(shown.map(|()| ExitCode::SUCCESS)?)
}

/// The terminal in our hands. It is given back as it was when this is dropped, and when anybody panics.
struct Screen {
    terminal: DefaultTerminal,
    palette: Palette,
}

impl Screen {
    fn take() -> io::Result<Screen> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        Ok(Screen { terminal, palette: Palette::of_environment() })
    }

    /// Until somebody ends it, or until the server, which was away at first, turns out to be one that will
    /// never answer: then a sentence says why.
    fn show(mut self, view: &mut View, feed: &Feed) -> io::Result<Result<(), String>> {
        loop {
            let palette = &self.palette;
            self.terminal.draw(|frame| draw(frame, view, palette))?;
            if event::poll(LOOK_AGAIN)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && view.press(key).is_end()
            {
                return Ok(Ok(()));
            }
            while let Some(news) = feed.now() {
                if let News::Nothing(sentence) = news {
                    return Ok(Err(sentence));
                }
                if view.take(news).is_end() {
                    return Ok(Ok(()));
                }
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

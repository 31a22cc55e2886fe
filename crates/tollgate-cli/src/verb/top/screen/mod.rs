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
    let screen = Screen::take().map_err(|error| {
        format!("the terminal cannot be used: {error}; --once prints a plain table")
    })?;
    screen.show(&mut view, feed).map_err(|error| {
        Failure::from(format!("the terminal cannot be used: {error}; --once prints a plain table"))
    })
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

    fn show(mut self, view: &mut View, feed: &Feed) -> io::Result<ExitCode> {
        loop {
            let palette = &self.palette;
            self.terminal.draw(|frame| draw(frame, view, palette))?;
            if event::poll(LOOK_AGAIN)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && view.press(key).is_end()
            {
                return Ok(ExitCode::SUCCESS);
            }
            while let Some(news) = feed.now() {
                if view.take(news).is_end() {
                    return Ok(ExitCode::SUCCESS);
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

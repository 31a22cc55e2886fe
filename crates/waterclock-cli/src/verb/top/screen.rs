//! The live view of a terminal.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::draw::{Palette, draw};
use super::feed::{Feed, News};
use super::policy::PolicyPage;
use super::snapshot::{Now, PolicyTotals, Rates, Watched};
use crate::output::Failure;

/// By what policies are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Refused,
    Allowed,
    Keys,
    Name,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Refused => "refused",
            Order::Allowed => "allowed",
            Order::Keys => "keys",
            Order::Name => "name",
        }
    }

    fn next(self) -> Order {
        match self {
            Order::Refused => Order::Allowed,
            Order::Allowed => Order::Keys,
            Order::Keys => Order::Name,
            Order::Name => Order::Refused,
        }
    }
}

/// Whether to go on.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    End,
}

impl Then {
    pub(super) fn is_end(self) -> bool {
        self == Then::End
    }
}

pub(super) struct View {
    pub(super) address: String,
    pub(super) watched: Watched,
    /// Why the server does not answer just now.
    pub(super) away: Option<String>,
    pub(super) order: Order,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
    /// The selected policy's name: it stays selected wherever it goes.
    selected: Option<String>,
    /// The policy whose own view is open, and what was told about it last.
    pub(super) open: Option<String>,
    pub(super) page: Option<Box<PolicyPage>>,
    /// The limits of every policy in words; empty from a server that does not tell.
    pub(super) limits: BTreeMap<String, String>,
}

impl View {
    pub(super) fn new(address: &str) -> View {
        View {
            address: address.to_owned(),
            watched: Watched::default(),
            away: None,
            order: Order::Refused,
            is_paused: false,
            shows_help: false,
            selected: None,
            open: None,
            page: None,
            limits: BTreeMap::new(),
        }
    }

    /// What is new, unless time stands still.
    pub(super) fn take(&mut self, news: News) -> Then {
        match news {
            News::Snapshot { .. } if self.is_paused => self.away = None,
            News::Snapshot { snapshot, more, .. } => {
                self.away = None;
                self.watched.remember(more.before);
                self.page = more.page.or(self.page.take());
                self.limits = more.limits.unwrap_or_else(|| std::mem::take(&mut self.limits));
                self.watched.take(*snapshot);
            }
            News::Away(sentence) | News::Failed(sentence) => self.away = Some(sentence),
            News::End => return Then::End,
        }
        Then::GoOn
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Then {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if with_control => return Then::End,
            // Any key but the one that ends it all takes the help away.
            KeyCode::Char('q') => return Then::End,
            _ if self.shows_help => self.shows_help = false,
            KeyCode::Esc | KeyCode::Backspace if self.open.is_some() => self.open = None,
            KeyCode::Esc => return Then::End,
            KeyCode::Enter => {
                let opened = match self.open {
                    Some(_) => None,
                    None => {
                        self.place().and_then(|at| self.rows().get(at).map(|(p, _)| p.name.clone()))
                    }
                };
                (self.open, self.page) = (opened, None);
            }
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(10),
            KeyCode::PageUp => self.select(-10),
            KeyCode::Home => self.select(isize::MIN),
            KeyCode::End => self.select(isize::MAX),
            _ => {}
        }
        Then::GoOn
    }

    /// Moves the selection by so many lines.
    fn select(&mut self, by: isize) {
        let rows = self.rows();
        let Some(last) = rows.len().checked_sub(1) else { return };
        let place = self.place().unwrap_or(0).saturating_add_signed(by).min(last);
        self.selected = rows.get(place).map(|(policy, _)| policy.name.clone());
    }

    /// The line that is selected; at first, the first one.
    pub(super) fn place(&self) -> Option<usize> {
        let rows = self.rows();
        let found =
            rows.iter().position(|(policy, _)| Some(&policy.name) == self.selected.as_ref());
        found.or((!rows.is_empty()).then_some(0))
    }

    /// Policies and their rates, in order.
    pub(super) fn rows(&self) -> Vec<(&PolicyTotals, Rates)> {
        let Some(Now { snapshot, by_policy, .. }) = self.watched.now() else { return Vec::new() };
        let mut rows: Vec<(&PolicyTotals, Rates)> =
            snapshot.policies.iter().zip(by_policy.iter().copied()).collect();
        rows.sort_by(|(one, rates), (other, others)| {
            let by_size = match self.order {
                Order::Refused => {
                    let refused = |rates: &Rates| rates.refused + rates.shadow_refused;
                    refused(others).total_cmp(&refused(rates))
                }
                Order::Allowed => others.allowed.total_cmp(&rates.allowed),
                Order::Keys => other.keys.cmp(&one.keys),
                Order::Name => std::cmp::Ordering::Equal,
            };
            by_size.then_with(|| one.name.cmp(&other.name))
        });
        rows
    }
}

/// How soon news and keys are noticed.
const POLL: Duration = Duration::from_millis(50);

/// Shows the view until the user ends it.
pub(super) fn run(address: &str, feed: &Feed) -> Result<ExitCode, Failure> {
    let mut view = View::new(address);
    feed.want_history();
    feed.want_limits();
    // If the first request fails for good, the terminal stays as it is.
    let first = feed.next();
    if let News::Failed(sentence) = first {
        return Err(sentence.into());
    }
    if view.take(first).is_end() {
        return Ok(ExitCode::SUCCESS);
    }
    // The terminal is restored before anything is printed.
    let shown =
        Screen::take().and_then(|screen| screen.show(&mut view, feed)).map_err(|error| {
            format!("the terminal cannot be used: {error}; --once prints a plain table")
        })?;
    Ok(shown.map(|()| ExitCode::SUCCESS)?)
}

/// The terminal. It is restored when this is dropped, and on a panic.
struct Screen {
    terminal: DefaultTerminal,
    palette: Palette,
}

impl Screen {
    fn take() -> io::Result<Screen> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        Ok(Screen { terminal, palette: Palette::of_environment() })
    }

    /// Until the user ends it, or until the server turns out to be one that will never answer: then a sentence says why.
    fn show(mut self, view: &mut View, feed: &Feed) -> io::Result<Result<(), String>> {
        loop {
            let palette = &self.palette;
            self.terminal.draw(|frame| draw(frame, view, palette))?;
            if event::poll(POLL)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && view.press(key).is_end()
            {
                return Ok(Ok(()));
            }
            feed.want_policy(view.open.clone());
            while let Some(news) = feed.now() {
                if let News::Failed(sentence) = news {
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

#[cfg(test)]
mod tests {
    use super::super::feed::More;
    use super::super::snapshot::tests::snapshot;
    use super::*;

    fn press(view: &mut View, code: KeyCode) -> Then {
        view.press(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn news(seconds: u64, allow: u64) -> News {
        News::Snapshot {
            snapshot: Box::new(snapshot(seconds, allow, 0)),
            json: String::new(),
            more: More::default(),
        }
    }

    fn names(view: &View) -> Vec<&str> {
        view.rows().iter().map(|(policy, _)| policy.name.as_str()).collect()
    }

    #[test]
    fn a_selection_stays_with_its_policy() {
        let mut view = View::new("here");
        let _ = view.take(news(1, 5));
        assert_eq!((names(&view), view.place()), (vec!["demo", "login"], Some(0)));
        let _ = press(&mut view, KeyCode::Down);
        let _ = press(&mut view, KeyCode::Char('j'));
        assert_eq!(view.place(), Some(1));
        let _ = press(&mut view, KeyCode::Char('s'));
        let _ = press(&mut view, KeyCode::Char('s'));
        assert_eq!((view.order, names(&view)), (Order::Keys, vec!["login", "demo"]));
        assert_eq!(view.place(), Some(0));
    }

    #[test]
    fn a_pause_stops_time_and_only_that() {
        let mut view = View::new("here");
        let _ = view.take(news(1, 5));
        let _ = press(&mut view, KeyCode::Char('p'));
        let _ = view.take(news(2, 50));
        assert_eq!(view.watched.snapshots(), 1);
        let _ = view.take(News::Away("gone".to_owned()));
        assert_eq!(view.away.as_deref(), Some("gone"));
        let _ = press(&mut view, KeyCode::Char('p'));
        let _ = view.take(news(3, 60));
        assert_eq!((view.watched.snapshots(), view.away.as_deref()), (2, None));
    }

    #[test]
    fn ways_out() {
        let mut view = View::new("here");
        assert_eq!(press(&mut view, KeyCode::Char('?')), Then::GoOn);
        assert_eq!((press(&mut view, KeyCode::Esc), view.shows_help), (Then::GoOn, false));
        let _ = view.take(news(1, 5));
        let _ = press(&mut view, KeyCode::Enter);
        assert_eq!(view.open.as_deref(), Some("demo"));
        assert_eq!((press(&mut view, KeyCode::Esc), view.open.as_deref()), (Then::GoOn, None));
        assert_eq!(press(&mut view, KeyCode::Esc), Then::End);
        assert_eq!(press(&mut view, KeyCode::Char('q')), Then::End);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.press(control_c), Then::End);
        assert_eq!(view.take(News::End), Then::End);
    }
}

//! Colours, for terminals: streams of `anstream` leave them out of pipes and files, and where `NO_COLOR`
//! asks for it.

use anstyle::{AnsiColor, Style};

/// Admitted, well, better.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Refused, broken, worse.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Something to know.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// What is not looked for at first.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Titles.
pub(crate) const STRONG: Style = Style::new().bold();

/// Text in a style, and plain after it.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

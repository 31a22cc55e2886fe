//! Colours, for terminals: streams of `anstream` leave them out of pipes and files, and where `NO_COLOR`
//! asks for it.

use anstyle::{AnsiColor, Style};
use clap::builder::Styles;

/// Admitted, well, better.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Refused, broken, worse.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Something to know.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// What is not looked for at first.
pub const FAINT: Style = Style::new().dimmed();
/// Titles.
pub const STRONG: Style = Style::new().bold();

/// What `--help` and complaints about arguments look like.
pub const HELP: Styles = Styles::styled()
    .header(STRONG)
    .usage(STRONG)
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(FAINT)
    .valid(GOOD)
    .invalid(WARN)
    .error(BAD.bold());

/// Text in a style, and plain after it.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// A policy's or a rule's description, line by line: what is named stands out, and bounds stand back.
pub fn described(text: &str) -> String {
    let line = |line: &str| match line.split_once(':') {
        Some((title, _)) if title.trim() == "bound" => styled(FAINT, line),
        Some((title, rest)) => format!("{}:{rest}", styled(STRONG, title)),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<String>>().join("\n")
}

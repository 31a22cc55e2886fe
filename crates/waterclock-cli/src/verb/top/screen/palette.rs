//! Colours of the live view; none where `NO_COLOR` asks for none.

use ratatui::style::{Color, Modifier, Style};

pub(super) struct Palette {
    is_coloured: bool,
}

impl Palette {
    pub(super) fn of_environment() -> Palette {
        let asked = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Palette { is_coloured: !asked }
    }

    #[cfg(test)]
    pub(super) fn plain() -> Palette {
        Palette { is_coloured: false }
    }

    pub(super) fn good(&self) -> Style {
        self.coloured(Color::Green)
    }

    pub(super) fn warn(&self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// Stands out without a colour, too.
    pub(super) fn bad(&self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(super) fn shadow(&self) -> Style {
        self.coloured(Color::Magenta)
    }

    pub(super) fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(super) fn faint(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn selected(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn coloured(&self, color: Color) -> Style {
        if self.is_coloured { Style::new().fg(color) } else { Style::new() }
    }
}

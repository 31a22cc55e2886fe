//! What a Redis process is told when it starts.

use std::path::{Path, PathBuf};

use super::port;

/// Lines for a configuration file. Ports are named here and chosen at each attempt to start,
/// because a port that was free may be taken a moment later.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Settings that take a free port, besides `port`.
    pub(super) ports: Vec<&'static str>,
    lines: Vec<(String, String)>,
    /// Whether this is a sentinel: a Redis that watches others.
    pub(super) sentinel: bool,
    /// Paths in its environment.
    pub(super) environment: Vec<(&'static str, PathBuf)>,
}

/// The ports of one attempt.
pub(super) type Ports = Vec<(&'static str, u16)>;

impl Settings {
    /// A server that keeps nothing on disk.
    pub(super) fn server() -> Self {
        Self::default().with(&[("save", ""), ("appendonly", "no")])
    }

    /// A sentinel. It remembers what it learns in its own configuration file.
    pub(super) fn sentinel() -> Self {
        Self { sentinel: true, ..Self::default() }
    }

    /// More lines; the last line about a thing counts.
    pub(super) fn with(mut self, lines: &[(&str, &str)]) -> Self {
        self.lines.extend(lines.iter().map(|&(name, value)| (name.into(), value.into())));
        self
    }

    /// The password that clients need.
    pub(super) fn password(&self) -> Option<&str> {
        let line = self.lines.iter().rev().find(|(name, _)| name == "requirepass");
        line.map(|(_, value)| value.as_str()).filter(|password| !password.is_empty())
    }

    /// Free ports for one attempt, that of plain connections first.
    pub(super) fn draw_ports(&self) -> Ports {
        std::iter::once("port")
            .chain(self.ports.iter().copied())
            .map(|name| (name, port::free_port()))
            .collect()
    }

    /// The configuration file.
    pub(super) fn text(&self, ports: &Ports, dir: &Path) -> String {
        let mut text = format!("bind 127.0.0.1\ndir \"{}\"\n", dir.display());
        for (name, port) in ports {
            text += &format!("{name} {port}\n");
        }
        for (name, value) in &self.lines {
            let value = if value.is_empty() { "\"\"" } else { value };
            text += &format!("{name} {value}\n");
        }
        text
    }
}

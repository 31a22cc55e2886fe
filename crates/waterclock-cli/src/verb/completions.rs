//! `waterclock completions`: command completion for shells.

use std::io::Write;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use crate::Waterclock;
use crate::output::Failure;

/// Print the completions for a shell.
///
/// bash: waterclock completions bash > ~/.local/share/bash-completion/completions/waterclock
///
/// zsh: waterclock completions zsh > "${fpath[1]}/_waterclock"
///
/// fish: waterclock completions fish > ~/.config/fish/completions/waterclock.fish
#[derive(clap::Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
    /// Print JSON: the shell's name and the script
    #[arg(long)]
    json: bool,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        // Into memory first: the generator panics where it cannot write, and a closed pipe is no reason to.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Waterclock::command(), "waterclock", &mut script);
        let mut out = std::io::stdout().lock();
        if self.json {
            let script = String::from_utf8_lossy(&script);
            writeln!(out, "{}", json!({ "shell": self.shell.to_string(), "script": script }))?;
        } else {
            out.write_all(&script)?;
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

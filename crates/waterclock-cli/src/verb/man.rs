//! `waterclock man`: the manual pages, made of the same words as `--help`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man as Manual;
use serde_json::json;

use crate::Waterclock;
use crate::output::Failure;

/// Print the manual page, or write a page for every command into a directory.
///
/// To read it: waterclock man | man -l -
#[derive(clap::Args)]
pub(crate) struct Man {
    /// Where to put a page for every command, such as ~/.local/share/man/man1; created if it is missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print JSON: every page by its name, or with --dir the files that were written
    #[arg(long)]
    json: bool,
}

/// One page and the name of its file.
struct Page {
    name: String,
    text: String,
}

impl Man {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let pages = pages()?;
        let mut out = io::stdout().lock();
        match &self.dir {
            Some(directory) => {
                let files = write_all(directory, &pages)?;
                if self.json {
                    writeln!(out, "{}", json!({ "written": files }))?;
                } else {
                    files.iter().try_for_each(|file| writeln!(out, "{file}"))?;
                }
            }
            None if self.json => {
                let listed = |page: &Page| json!({ "name": page.name, "text": page.text });
                let pages: Vec<_> = pages.iter().map(listed).collect();
                writeln!(out, "{}", json!({ "pages": pages }))?;
            }
            None => {
                let first = pages.first().map_or("", |page| &page.text);
                out.write_all(first.as_bytes())?;
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The page of the program itself, then those of its commands.
fn pages() -> io::Result<Vec<Page>> {
    let mut whole = Waterclock::command();
    // Now every command knows its full name, which is the name of its page.
    whole.build();
    // `help` is no subject of its own.
    let whole = whole.mut_subcommand("help", |help| help.hide(true));
    let mut commands = vec![whole.clone()];
    for command in whole.get_subcommands().filter(|command| !command.is_hide_set()) {
        let command = match command.has_subcommands() {
            true => command.clone().mut_subcommand("help", |help| help.hide(true)),
            false => command.clone(),
        };
        let parts = command.get_subcommands().filter(|part| !part.is_hide_set()).cloned();
        commands.extend(parts.collect::<Vec<_>>());
        commands.push(command);
    }
    commands.into_iter().map(page).collect()
}

fn page(command: Command) -> io::Result<Page> {
    let title = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut text = Vec::new();
    let source = concat!("waterclock ", env!("CARGO_PKG_VERSION"));
    Manual::new(command).source(source).render(&mut text)?;
    Ok(Page { name: format!("{title}.1"), text: String::from_utf8_lossy(&text).into_owned() })
}

fn write_all(directory: &Path, pages: &[Page]) -> Result<Vec<String>, Failure> {
    let cannot = |path: &Path, error: io::Error| {
        Failure::from(format!("{}: cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(directory).map_err(|error| cannot(directory, error))?;
    let mut files = Vec::new();
    for page in pages {
        let path = directory.join(&page.name);
        std::fs::write(&path, &page.text).map_err(|error| cannot(&path, error))?;
        files.push(path.display().to_string());
    }
    Ok(files)
}

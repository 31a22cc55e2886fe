//! `waterclock top`: what a running server does right now.

mod draw;
mod feed;
mod plain;
mod policy;
mod screen;
mod snapshot;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use waterclock_config::Micros;

use self::feed::{Feed, News};
use self::snapshot::Watched;
use crate::output::{Failure, warn};
use crate::server::{Access, Server, ServerAddress};

/// Watch a running server: decisions per second, policies, refused keys, store and configuration.
///
/// On a terminal it stays until q is pressed; ? shows the other keys. Elsewhere it prints one table.
#[derive(clap::Args)]
pub(crate) struct Top {
    /// The server's HTTP address; https://… for TLS
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Time between two samples
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: String,
    /// Take two samples, one interval apart, print one table and exit
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    access: Access,
    /// Print what the server reports as lines of JSON, one per interval; with --once, one line
    #[arg(long)]
    json: bool,
}

impl Top {
    pub(crate) fn run(&self) -> Result<ExitCode, Failure> {
        let address = ServerAddress::parse_http(&self.url)?;
        let name = address.to_string();
        let interval = Micros::parse(&self.interval)
            .ok()
            .filter(|interval| (100_000..=3_600_000_000).contains(&interval.0));
        let interval = interval.ok_or_else(|| {
            format!("--interval must be from 100ms to 1h, such as 2s; found {}", self.interval)
        })?;
        let server = Server::new(address, &self.access)?;
        let feed = Feed::start(server, interval.duration())?;
        if self.json {
            self.lines(&feed)
        } else if self.once || !std::io::stdout().is_terminal() {
            once(&feed)
        } else {
            screen::run(&name, &feed)
        }
    }

    /// What the server reports, unchanged. A server that is away is waited for, except with `--once`.
    fn lines(&self, feed: &Feed) -> Result<ExitCode, Failure> {
        let mut out = std::io::stdout().lock();
        let mut is_away = false;
        loop {
            match feed.next() {
                News::Snapshot { json, .. } => {
                    is_away = false;
                    writeln!(out, "{json}")?;
                    out.flush()?;
                    if self.once {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                News::Away(sentence) if self.once => return Err(sentence.into()),
                News::Away(sentence) => {
                    if !std::mem::replace(&mut is_away, true) {
                        warn(&format!("{sentence}; retrying"));
                    }
                }
                News::Failed(sentence) => return Err(sentence.into()),
                News::End => return Ok(ExitCode::SUCCESS),
            }
        }
    }
}

/// One table, with the rates between two snapshots.
fn once(feed: &Feed) -> Result<ExitCode, Failure> {
    let mut watched = Watched::default();
    loop {
        match feed.next() {
            News::Snapshot { snapshot, .. } => watched.take(*snapshot),
            News::Away(sentence) | News::Failed(sentence) => return Err(sentence.into()),
            News::End => return Ok(ExitCode::SUCCESS),
        }
        if let Some(now) = watched.now().filter(|_| watched.snapshots() > 1) {
            let mut out = anstream::stdout().lock();
            plain::lines(now).iter().try_for_each(|line| writeln!(out, "{line}"))?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

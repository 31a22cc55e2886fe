//! `waterclock import redis-cell`: arrival times of keys move from a Redis with redis-cell to a running server.
//!
//! redis-cell keeps for each key one instant, at which the key is full again, and so does the server's `CL.THROTTLE`,
//! whatever numbers a call carries. So a key is charged in numbers of our own, in which a unit is a microsecond: that many
//! units as its instant is away. The import needs none of the callers' numbers.

mod new;
mod old;
mod resp;

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use waterclock_config::Micros;
use waterclock_rehearse::terminal::grouped;

use self::new::NewServer;
use self::old::{Found, OldRedis, RedisAddress};
use crate::output::{Failure, print_json, say};
use crate::server::{Access, Server, ServerAddress};
use crate::verb::block_on;

/// Copy the counts of redis-cell to a running server: exit code 0 all were copied, 1 some failed, 2 error.
///
/// Reads the arrival times that redis-cell keeps in Redis, with SCAN, and charges the same keys of CL.THROTTLE until they
/// are full at the same instant. Redis is only read. A key that is used as much or more on the server stays as it is, so
/// running it again is safe.
#[derive(clap::Args)]
pub(super) struct RedisCell {
    /// The Redis with redis-cell: redis://[user:password@]HOST[:PORT][/DB] or rediss://…; ${NAME} in it is an environment
    /// variable
    // Parsed later: an error about an argument would repeat it, and the password.
    #[arg(long, value_name = "URL")]
    redis: String,
    /// Only keys of this pattern, as SCAN takes it
    #[arg(long = "match", value_name = "PATTERN")]
    pattern: Option<String>,
    /// The Redis protocol of the server, such as redis://127.0.0.1:6380
    #[arg(long, value_name = "URL", value_parser = ServerAddress::parse_resp, required_unless_present = "dry_run")]
    to: Option<ServerAddress>,
    /// Print the commands instead of sending them; without --to, those for a fresh server
    #[arg(long)]
    dry_run: bool,
    /// Print the summary as JSON
    #[arg(long, conflicts_with = "dry_run")]
    json: bool,
    #[command(flatten)]
    access: Access,
}

/// What became of the keys.
#[derive(Default, Serialize)]
struct Summary {
    imported: u64,
    /// The server has used them as much or more.
    kept: u64,
    /// Full by now: there is nothing to import.
    full: u64,
    /// Not keys of redis-cell.
    other: u64,
    failed: u64,
}

impl RedisCell {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        block_on(self.copy())?
    }

    async fn copy(&self) -> Result<ExitCode, Failure> {
        let address = RedisAddress::parse(&self.redis);
        let address = address.map_err(|sentence| format!("--redis: {sentence}"))?;
        let mut old = OldRedis::connect(&address).await?;
        let mut new = match &self.to {
            Some(address) => {
                let server = Server::new(address.clone(), &self.access)?;
                Some(NewServer::connect(server).await?)
            }
            None => None,
        };
        let mut summary = Summary::default();
        while let Some(found) = old.next(self.pattern.as_deref()).await? {
            self.take(found, new.as_mut(), &mut summary).await?;
        }
        if self.json {
            print_json(&summary)?;
        } else if !self.dry_run {
            let Summary { imported, kept, full, other, failed } = &summary;
            let [imported, kept, full, other, failed] =
                [imported, kept, full, other, failed].map(|number| grouped(*number));
            writeln!(
                std::io::stdout(),
                "{imported} imported, {kept} used as much or more already, {full} full again, {other} not of redis-cell, {failed} failed"
            )?;
        }
        Ok(if summary.failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    /// Some keys that were found.
    async fn take(
        &self,
        found: Found,
        new: Option<&mut NewServer>,
        summary: &mut Summary,
    ) -> Result<(), Failure> {
        summary.full += found.full;
        summary.other += found.other;
        let mut due: Vec<Due> = found.due;
        let Some(new) = new else {
            return print_commands(&due);
        };
        let all = due.len();
        let errors = new.subtract_used(&mut due).await?;
        summary.kept += (all - due.len() - errors.len()) as u64;
        if self.dry_run {
            print_commands(&due)?;
        } else {
            let not_charged = new.charge(&due).await?;
            summary.imported += (due.len() - not_charged.len()) as u64;
            report(&not_charged, summary);
        }
        report(&errors, summary);
        Ok(())
    }
}

/// A key, and how long it takes until it is full again.
pub(super) struct Due {
    pub(super) key: Vec<u8>,
    pub(super) full_in: Micros,
}

/// A key that cannot be charged, and why.
pub(super) struct Failed {
    key: Vec<u8>,
    reason: String,
}

fn report(errors: &[Failed], summary: &mut Summary) {
    for Failed { key, reason } in errors {
        say(&format!("{}: {reason}", resp::shown(key)));
    }
    summary.failed += errors.len() as u64;
}

fn print_commands(due: &[Due]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for due in due {
        writeln!(
            out,
            "CL.THROTTLE {} {} {}",
            resp::shown(&due.key),
            new::NUMBERS.join(" "),
            due.full_in.0
        )?;
    }
    Ok(())
}

//! Limits in files of the reference service, which are read again when they change.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{error, info};
use waterclock_config::{MAX_CONFIG_FILE, read_file};
use waterclock_server::Server;
use waterclock_server::reference::Domain;

use super::super::import::reference_domains;
use super::settings::Files;
use crate::output::Failure;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Files of one directory.
const MOST: usize = 10_000;

/// Reads the files, and again whenever they change, for as long as the server runs.
pub(super) async fn follow(server: &Server, files: &Files) {
    let mut known = None;
    loop {
        let (directory, skips) = (files.directory.clone(), files.skips_dotfiles);
        let before = known.clone();
        let read = tokio::task::spawn_blocking(move || {
            let texts = texts(&directory, skips)?;
            // An error is reported once.
            if before.as_ref() == Some(&texts) {
                return Ok::<_, Failure>(None);
            }
            Ok(Some((reference_domains(&texts), texts)))
        });
        match read.await {
            Ok(Ok(Some((domains, texts)))) => {
                apply(server, domains, files.merges).await;
                known = Some(texts);
            }
            Ok(Err(failure)) if known.is_none() => {
                error!("cannot read limits: {failure}");
                known = Some(Vec::new());
            }
            _ => {}
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn apply(server: &Server, domains: Result<Vec<Domain>, Failure>, merges: bool) {
    let outcome = match domains {
        Ok(domains) => {
            let many = domains.len();
            server.push(domains, merges).await.map(|()| many).map_err(|error| error.to_string())
        }
        Err(failure) => Err(failure.to_string()),
    };
    match outcome {
        Ok(domains) => info!(domains, "limits of the files are in force"),
        Err(why) => error!("limits of the files rejected, the old ones stay in force: {why}"),
    }
}

/// Name and text of each file, those of directories below included.
fn texts(directory: &Path, skips_dotfiles: bool) -> Result<Vec<(String, String)>, Failure> {
    let mut texts = Vec::new();
    let mut left: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        let cannot = |error| format!("{}: {error}", directory.display());
        for entry in fs::read_dir(&directory).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Kubernetes keeps the files themselves in such a directory, beside links to them.
            if name.starts_with("..") || (skips_dotfiles && name.starts_with('.')) {
                continue;
            }
            if path.is_dir() {
                left.push(path);
            } else if texts.len() < MOST {
                let text = String::from_utf8(read_file(&path, MAX_CONFIG_FILE)?)
                    .map_err(|_| format!("{}: is not UTF-8", path.display()))?;
                texts.push((path.display().to_string(), text));
            }
        }
    }
    texts.sort();
    Ok(texts)
}

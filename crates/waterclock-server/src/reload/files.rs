//! The files a configuration is made of, and whether they have changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use waterclock_config::Config;

/// Links that lead to links are followed so far.
const MOST_LINKS: usize = 16;

/// The file itself, certificates, and files that hold secrets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Files(Vec<PathBuf>);

/// What stood in the files: hashes, for some of it is secret.
pub(crate) type Contents = Vec<Option<[u8; 32]>>;

impl Files {
    pub(crate) fn of(config: &Config) -> Files {
        Files(config.files())
    }

    /// What stands in them. Ask before the files are read for what they say: then a change in between
    /// is one that is noticed later, and not one that never is.
    pub(crate) fn contents_before_use(&self, config: &Config) -> Contents {
        let mut contents = self.contents();
        // The file itself has been read already.
        if let Some(first) = contents.first_mut() {
            *first = config.hash;
        }
        contents
    }

    pub(super) fn contents(&self) -> Contents {
        let hash =
            |path: &PathBuf| std::fs::read(path).ok().map(|bytes| Sha256::digest(bytes).into());
        self.0.iter().map(hash).collect()
    }

    /// The directories in which something happens when one of the files changes.
    ///
    /// Directories are watched, not files: editors replace files, and Kubernetes swaps a link above
    /// them. So every directory counts that holds a link on the way to a file.
    pub(super) fn directories(&self) -> BTreeSet<PathBuf> {
        let mut directories = BTreeSet::new();
        for file in &self.0 {
            let mut file = file.clone();
            for _ in 0..MOST_LINKS {
                let directory = directory_of(&file);
                note_links_above(&directory, &mut directories);
                let target = std::fs::read_link(&file);
                directories.insert(directory.clone());
                let Ok(target) = target else { break };
                file = directory.join(target);
            }
        }
        directories
    }
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A directory may be a link itself, and be swapped in the directory that holds it.
fn note_links_above(directory: &Path, directories: &mut BTreeSet<PathBuf>) {
    for above in directory.ancestors().take(MOST_LINKS) {
        if above.is_symlink() {
            directories.insert(directory_of(above));
        }
    }
}

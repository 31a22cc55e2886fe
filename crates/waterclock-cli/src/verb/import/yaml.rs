//! The files of the reference service, as they are written.

use std::path::Path;

use serde::Deserialize;
use serde_saphyr::{Location, Spanned};
use waterclock_config::cannot_read;

use crate::failure::Failure;

/// One document: a domain and its descriptors.
pub(super) struct Document {
    pub(super) file: String,
    pub(super) root: Root,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Root {
    pub(super) domain: Spanned<String>,
    pub(super) descriptors: Option<Vec<Spanned<Descriptor>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Descriptor {
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
    pub(super) rate_limit: Option<Spanned<RateLimit>>,
    pub(super) descriptors: Option<Vec<Spanned<Descriptor>>>,
    #[serde(default)]
    pub(super) shadow_mode: bool,
    #[serde(default)]
    pub(super) detailed_metric: bool,
    #[serde(default)]
    pub(super) value_to_metric: bool,
    #[serde(default)]
    pub(super) share_threshold: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RateLimit {
    pub(super) requests_per_unit: Option<u32>,
    pub(super) unit: Option<String>,
    #[serde(default)]
    pub(super) unlimited: bool,
    pub(super) name: Option<String>,
    pub(super) replaces: Option<Vec<Replaced>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replaced {
    pub(super) name: String,
}

/// The documents of a file.
pub(super) fn read(path: &Path) -> Result<Vec<Document>, Failure> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| cannot_read(&file, &error))?;
    let roots: Vec<Root> = serde_saphyr::from_multiple(&text).map_err(|error| {
        let at = error.location();
        complaint(&file, at, sentence(&error.without_snippet().to_string()))
    })?;
    if roots.is_empty() {
        return Err(Failure::from(format!("{file}: holds no `domain`")));
    }
    Ok(roots.into_iter().map(|root| Document { file: file.clone(), root }).collect())
}

/// `file:line:column: sentence`.
pub(super) fn complaint(file: &str, at: Option<Location>, sentence: impl AsRef<str>) -> Failure {
    let sentence = sentence.as_ref();
    Failure::from(match at {
        Some(at) => format!("{file}:{}:{}: {sentence}", at.line(), at.column()),
        None => format!("{file}: {sentence}"),
    })
}

/// The place stands before the sentence already.
fn sentence(message: &str) -> &str {
    let first = message.lines().next().unwrap_or_default();
    first.rfind(" at line ").map_or(first, |end| &first[..end])
}

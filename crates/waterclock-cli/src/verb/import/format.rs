//! The formats that can be imported, and how a file is recognised.

use clap::ValueEnum;
use serde_json::Value;

use super::options::{self, Options};
use super::source::{Source, not_yaml};
use crate::output::Failure;

/// Whose configuration a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Envoy's reference rate limit service, YAML
    Envoy,
    /// Limitador, YAML
    Limitador,
    /// Limits of Sharkey's endpoints, JSON
    Sharkey,
    /// Limits of Misskey's endpoints, JSON
    Misskey,
    /// Options of rate-limiter-flexible, JSON
    RateLimiterFlexible,
    /// Options of express-rate-limit, JSON
    ExpressRateLimit,
}

impl Format {
    /// As `--from` takes it.
    fn word(self) -> &'static str {
        match self {
            Format::Envoy => "envoy",
            Format::Limitador => "limitador",
            Format::Sharkey => "sharkey",
            Format::Misskey => "misskey",
            Format::RateLimiterFlexible => "rate-limiter-flexible",
            Format::ExpressRateLimit => "express-rate-limit",
        }
    }

    /// The one format of these files.
    pub(super) fn recognise(sources: &[Source]) -> Result<Format, Failure> {
        let mut found: Option<(&str, Format)> = None;
        for source in sources {
            let format = Format::of(source)?;
            if let Some((other, first)) = found
                && first != format
            {
                let (name, first, second) = (&source.name, first.word(), format.word());
                return Err(format!(
                    "{other} is {first} and {name} is {second}; import them one after the other"
                )
                .into());
            }
            found = Some((&source.name, format));
        }
        Ok(found.map_or(Format::Envoy, |(_, format)| format))
    }

    fn of(source: &Source) -> Result<Format, Failure> {
        // A bracket less or more makes no YAML of it.
        let is_json = source.text.trim_start().starts_with(['{', '[']);
        let candidates = match yaml_format(source, is_json)? {
            Some(format) => return Ok(format),
            None if is_json => json_formats(&options::read(source)?),
            None => Vec::new(),
        };
        let words: Vec<&str> = candidates.iter().map(|format| format.word()).collect();
        match &candidates[..] {
            [format] => Ok(*format),
            [] => {
                let all: Vec<&str> = Format::value_variants().iter().map(|f| f.word()).collect();
                let all = all.join(", ");
                Err(format!(
                    "{}: is in no format that is recognised; name it with --from, one of {all}",
                    source.name
                )
                .into())
            }
            _ => Err(format!(
                "{}: may be {}; say which with --from",
                source.name,
                words.join(" or ")
            )
            .into()),
        }
    }
}

/// The format of a file whose shape tells: YAML may be written as JSON, too.
fn yaml_format(source: &Source, is_json: bool) -> Result<Option<Format>, Failure> {
    let documents: Vec<Value> = match serde_saphyr::from_multiple(&source.text) {
        Ok(documents) => documents,
        // What is wrong with JSON, its own reader tells better.
        Err(_) if is_json => return Ok(None),
        Err(error) => return Err(not_yaml(&source.name, error)),
    };
    let is_limitador = |limits: &Value| {
        limits.as_array().and_then(|limits| limits.first()).is_some_and(|limit| {
            limit.get("namespace").is_some() || limit.get("max_value").is_some()
        })
    };
    Ok(documents.first().and_then(|first| match first {
        Value::Object(fields)
            if ["domain", "descriptors"].iter().any(|key| fields.contains_key(*key)) =>
        {
            Some(Format::Envoy)
        }
        limits if is_limitador(limits) => Some(Format::Limitador),
        _ => None,
    }))
}

/// The formats whose options these may be.
fn json_formats(limiters: &[Options]) -> Vec<Format> {
    let has = |names: &[&str]| {
        let has_all = |options: &Options| names.iter().all(|name| options.get(name).is_some());
        limiters.iter().any(has_all)
    };
    let has_any = |names: &[&str]| names.iter().any(|name| has(&[name]));
    let is_bucket = limiters.iter().any(|options| options.text("type") == Some("bucket"));
    let mut formats = Vec::new();
    if is_bucket || has_any(&["size", "dripRate", "dripSize"]) {
        formats.push(Format::Sharkey);
    } else if has(&["max", "duration"]) || has(&["minInterval"]) {
        formats.extend([Format::Sharkey, Format::Misskey]);
    }
    if has(&["points"]) {
        formats.push(Format::RateLimiterFlexible);
    }
    if has_any(&["windowMs", "standardHeaders", "legacyHeaders"]) {
        formats.push(Format::ExpressRateLimit);
    }
    formats
}

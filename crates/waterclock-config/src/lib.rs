//! From text to policies: `waterclock.toml` or JSON becomes [`waterclock::Policy`], with errors that point to line
//! and column.
//!
//! No server is needed: a program that limits by itself can keep its limits in a file.
//!
//! ```
//! use waterclock_config::Config;
//!
//! let text = r#"
//!     [policies.login]
//!     limits = ["5/m", { algorithm = "rolling-window", limit = 50, per = "1h" }]
//! "#;
//! // Or `Config::load("waterclock.toml")?`.
//! let config = Config::read("waterclock.toml", text)?;
//! let login = config.policy("login").expect("the file has it");
//! assert_eq!(login.policy().limits()[0].limit(), Some(5));
//!
//! let invalid = Config::read("waterclock.toml", "[policies.login]\nlimit = \"5/m\"").err().unwrap();
//! let place = invalid.problems()[0].place.as_ref().unwrap();
//! assert_eq!((place.line, place.column), (2, 1));
//! # Ok::<_, waterclock_config::Invalid>(())
//! ```
//!
//! | module or type | for |
//! |---|---|
//! | [`Config`] | a whole file: server, store, policies, rules |
//! | [`PolicyConfig`] | a policy as a [`waterclock::Scope`], and how it is served |
//! | [`LimitFields`] | a limit as JSON, in both directions |
//! | [`OverrideJson`], [`OverrideLine`] | an override of a single key as JSON |
//! | [`english`] | what policies mean, and warnings |
//! | [`schema()`] | the JSON Schema of the file |

mod algorithm;
mod decision_line;
mod duration;
pub mod english;
mod error;
mod fields;
mod file;
mod json;
mod legacy;
mod limit;
mod limit_info;
mod listen;
mod override_json;
mod policy;
mod rule_charge;
mod rule_match;
mod rules;
mod schema;
mod secret;
mod server;
mod shorthand;
mod size;
mod store;
mod suggest;
mod table;
mod tier;
mod xds;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::DeTable;

pub use self::decision_line::{DecisionLine, micros_up};
pub use self::duration::{DurationError, Micros};
pub use self::error::{Invalid, Place, Problem, cannot_read};
pub use self::fields::{LimitFields, LimitFieldsError};
pub use self::file::{MAX_CONFIG_FILE, MAX_SECRET_FILE, read_file};
pub use self::json::{
    DescribedPolicies, PoliciesJson, PolicyJson, percent, read_limits, read_policy,
};
pub use self::listen::{Listen, ListenFlags};
pub use self::override_json::{BadField, FactorJson, OverrideChange, OverrideJson, OverrideLine};
pub use self::policy::{PolicyConfig, PolicyPart, other_units};
pub use self::rule_charge::RuleCharge;
pub use self::rule_match::RuleMatch;
pub use self::rules::{EntryConfig, MAX_ENTRIES, MAX_TEXT, Pattern, RuleConfig, Then};
pub use self::schema::schema;
pub use self::server::{ServerConfig, TlsConfig, Token};
pub use self::store::{Address, StoreConfig, not_an_address};
pub use self::suggest::{did_you_mean, nearest_first, quoted};
pub use self::tier::TierConfig;
pub use self::xds::{ReferenceConfig, XdsConfig, XdsTls};

use self::english::Warning;
use self::error::{Fault, Faults, Source};
use self::schema::{Key, Shape};
use self::suggest::all_of;
use self::table::{Field, Table};

/// The longest key, in bytes.
pub const MAX_KEY: usize = 1_024;

/// The sections of the file.
const SECTIONS: &[Key] = &[
    Key::new(
        "server",
        Shape::Table(server::KEYS),
        "Where the server listens, and which clients and proxies it trusts.",
    ),
    Key::new("store", Shape::Table(store::KEYS), "Where state lives."),
    Key::new(
        "xds",
        Shape::Table(xds::KEYS),
        "A control plane, such as Envoy Gateway, that pushes limits beside those of this file.",
    ),
    Key::new(
        "defaults",
        Shape::Table(policy::DEFAULTS),
        "What policies inherit unless they say otherwise.",
    ),
    Key::new(
        "policies",
        Shape::MapOf(&Shape::Table(policy::KEYS)),
        "Named sets of limits that admit together or not at all.",
    ),
    Key::new(
        "rules",
        Shape::List(&Shape::Table(rules::KEYS)),
        "Which descriptors of Envoy's rate limit service get which policy.",
    ),
];

/// A configuration file that has no errors.
#[non_exhaustive]
pub struct Config {
    /// The name of the file.
    pub file: String,
    /// The file itself, where there is one.
    pub path: Option<PathBuf>,
    /// The hash of the file's text.
    pub hash: Option<[u8; 32]>,
    /// Whether there is no text at all.
    pub is_blank: bool,
    /// Where the server listens, and which clients and proxies it trusts.
    pub server: ServerConfig,
    /// Where state lives.
    pub store: StoreConfig,
    /// What is valid but cannot be meant.
    pub warnings: Vec<Warning>,
    /// In the order of the file.
    pub policies: Vec<PolicyConfig>,
    /// In the order of the file.
    pub rules: Vec<RuleConfig>,
    /// Limits that a control plane pushes.
    pub xds: Option<XdsConfig>,
    /// Answers as Envoy's reference rate limit service gives them.
    pub reference: ReferenceConfig,
    source: Source,
}

impl Config {
    /// Reads a file of at most 16 MiB. Pipes and devices are errors, and so is a file system that hangs, after 5 s.
    ///
    /// # Errors
    ///
    /// Every problem of the file, each with its line and column.
    pub fn load(path: impl AsRef<Path>) -> Result<Config, Invalid> {
        let path = path.as_ref().to_owned();
        let name = path.display().to_string();
        let bytes = read_file(&path, MAX_CONFIG_FILE)?;
        let hash = Some(Sha256::digest(&bytes).into());
        let text = String::from_utf8(bytes).map_err(|error| {
            format!("{name}: is not UTF-8 after byte {}", error.utf8_error().valid_up_to())
        })?;
        let is_blank = text.trim().is_empty();
        let config = Config::parse(&Source::new(name, text))?;
        Ok(Config { path: Some(path), hash, is_blank, ..config })
    }

    /// Reads a text; `name` is its name in errors.
    pub fn read(name: &str, text: &str) -> Result<Config, Invalid> {
        Config::parse(&Source::new(name, text))
    }

    /// The built-in configuration that `waterclock serve` uses where there is no file.
    pub fn demonstration() -> Result<Config, Invalid> {
        Config::read("the built-in demonstration", include_str!("demonstration.toml"))
    }

    fn parse(source: &Source) -> Result<Config, Invalid> {
        let faults = Faults::default();
        let config = match DeTable::parse(source.text()) {
            Ok(document) => Some(read(source, &document, &faults)),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                faults.push(Fault::at(at, error.message().replace('\n', ", ")));
                None
            }
        };
        match config {
            Some(config) if faults.is_empty() => Ok(config),
            _ => Err(faults.into_invalid(source)),
        }
    }

    /// The policy of this name.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&PolicyConfig> {
        self.policies.iter().find(|policy| policy.name() == name)
    }

    /// Whether limits come from elsewhere, beside those of the file.
    #[must_use]
    pub fn is_pushed(&self) -> bool {
        self.xds.is_some() || self.reference.is_pushed
    }

    /// A problem of a policy, with its place.
    #[must_use]
    pub fn policy_problem(
        &self,
        policy: &PolicyConfig,
        part: PolicyPart,
        message: impl Into<String>,
    ) -> Problem {
        let place = Some(self.source.place(policy.place_of(part)));
        Problem { place, message: message.into() }
    }

    /// A problem of `[server]`, with its place.
    #[must_use]
    pub fn server_problem(&self, message: impl Into<String>) -> Problem {
        let place = self.server.at.map(|at| self.source.place(at));
        Problem { place, message: message.into() }
    }

    /// An error about the files of `tls`, with its place.
    #[must_use]
    pub fn tls_error(&self, error: Invalid) -> Invalid {
        let place = self.server.tls_at.map(|at| self.source.place(at));
        let about = |problem: Problem| Problem {
            place: place.clone(),
            message: format!("`tls` names {}", problem.message),
        };
        error.into_iter().map(about).collect()
    }

    /// Takes out the policy of this name, or the only one there is.
    pub fn choose(&mut self, name: Option<&str>) -> Result<PolicyConfig, Invalid> {
        let names: Vec<&str> = self.policies.iter().map(PolicyConfig::name).collect();
        let place = match (name, names.as_slice()) {
            (_, []) => return Err(format!("{} has no policies", self.file).into()),
            (None, [_]) => 0,
            (None, _) => {
                return Err(format!("choose one of the policies {}", all_of(&names)).into());
            }
            (Some(name), _) => names.iter().position(|known| *known == name).ok_or_else(|| {
                let has = nearest_first(name, &names);
                let hint = did_you_mean(name, names.iter().copied());
                format!("there is no policy `{name}` in {}, which has {has}{hint}", self.file)
            })?,
        };
        Ok(self.policies.swap_remove(place))
    }

    /// Every file that a reload reads: this one, and those of its secrets and certificates.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.path.iter().cloned().chain(self.server.files()).collect()
    }
}

fn read<'doc>(
    source: &Source,
    document: &'doc Spanned<DeTable<'doc>>,
    faults: &'doc Faults,
) -> Config {
    let table = Table::new("the file".to_owned(), 0, document.get_ref(), SECTIONS, faults);
    table.refuse_unknown_keys();
    let server = table.optional("server", |field| field.table("`[server]`", server::KEYS));
    let server = server.map_or_else(ServerConfig::unsaid, |section| server::read(source, &section));
    let store = table.optional("store", |field| field.table("`[store]`", store::KEYS));
    let store = store.map_or_else(StoreConfig::unsaid, |section| store::read(source, &section));
    let pushes = table.optional("xds", |field| field.table("`[xds]`", xds::KEYS));
    let max_sharing = store.max_sharing();
    let defaults = table.optional("defaults", policy::read_defaults);
    let entries = table.optional("policies", Field::entries).unwrap_or_default();
    let read = |entry| policy::read(entry, defaults.as_ref(), max_sharing);
    let policies: Vec<PolicyConfig> = entries.iter().filter_map(read).collect();
    policy::refuse_twins(&entries, &policies);
    let written: Vec<&str> = entries.iter().map(|entry| entry.key).collect();
    let rules = table.optional("rules", Field::list).unwrap_or_default();
    let rules = rules::read(&rules, &written, &policies);
    Config {
        file: source.name().to_owned(),
        path: None,
        warnings: server.warnings().into_iter().chain(rules::warnings(&rules, &policies)).collect(),
        hash: None,
        is_blank: false,
        server,
        store,
        policies,
        rules,
        xds: pushes.and_then(|section| xds::read(source, &section)),
        reference: ReferenceConfig::default(),
        source: source.clone(),
    }
}

/// Tests the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

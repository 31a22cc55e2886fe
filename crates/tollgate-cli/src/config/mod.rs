//! The configuration file: read whole, complained about whole.

mod algorithm;
mod build;
mod choose;
mod decimal;
mod elsewhere;
mod field;
mod key;
mod legacy;
mod limit;
mod limits;
mod micros;
mod nearest;
mod numbers;
mod policy;
mod problem;
mod schema;
mod server;
mod shorthand;
mod source;
mod spec;
mod store;
mod table;
mod wording;

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeTable;

pub(crate) use self::micros::Micros;
pub(crate) use self::nearest::did_you_mean;
pub(crate) use self::schema::schema;
pub(crate) use self::spec::{AlgorithmSpec, LimitSpec, PolicySpec, Window};
pub(crate) use self::store::StoreSpec;
pub(crate) use self::wording::quoted;

use self::field::Field;
use self::key::{Key, Shape};
use self::problem::{Problem, Problems};
use self::source::Source;
use self::table::Table;
use crate::failure::{Failure, cannot_read};

/// The file that is read when none is named.
const DEFAULT_FILE: &str = "tollgate.toml";

/// The sections of the file.
const SECTIONS: &[Key] = &[
    Key::new(
        "server",
        Shape::Table(server::KEYS),
        "Where the server listens and whom it believes.",
    ),
    Key::new("store", Shape::Table(store::KEYS), "Where state lives."),
    Key::new(
        "policies",
        Shape::MapOf(&Shape::Table(policy::KEYS)),
        "Named sets of limits that admit together or not at all.",
    ),
    Key::new("rules", Shape::Anything, "Which descriptors get which policy."),
];

/// What a file says.
pub(crate) struct Config {
    /// The name of the file.
    pub(crate) file: String,
    pub(crate) store: StoreSpec,
    /// What is valid and yet cannot be meant.
    pub(crate) oddities: Vec<String>,
    /// In the order of the file.
    pub(crate) policies: Vec<PolicySpec>,
}

impl Config {
    /// Reads a file, or `tollgate.toml` in the current directory.
    pub(crate) fn load(file: Option<&Path>) -> Result<Config, Failure> {
        let path = match file {
            Some(path) => path.to_owned(),
            None => default_file()?,
        };
        let name = path.display().to_string();
        let bytes = std::fs::read(&path).map_err(|error| cannot_read(&name, &error))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            format!("{name}: is not UTF-8 after byte {}", error.utf8_error().valid_up_to())
        })?;
        Config::parse(&Source::new(name, text))
    }

    fn parse(source: &Source) -> Result<Config, Failure> {
        let problems = Problems::default();
        let config = match DeTable::parse(source.text()) {
            Ok(document) => Some(read(source, &document, &problems)),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                problems.note(Problem::at(at, error.message().replace('\n', ", ")));
                None
            }
        };
        match config {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(Failure::lines(
                problems.into_sorted().iter().map(|problem| source.point(problem)),
            )),
        }
    }
}

fn default_file() -> Result<PathBuf, Failure> {
    let path = PathBuf::from(DEFAULT_FILE);
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("there is no {DEFAULT_FILE} in this directory; name a file with -c FILE")
            .into())
    }
}

fn read<'doc>(
    source: &Source,
    document: &'doc Spanned<DeTable<'doc>>,
    problems: &'doc Problems,
) -> Config {
    let table = Table::new("the file".to_owned(), 0, document.get_ref(), SECTIONS, problems);
    table.refuse_unknown_keys();
    let server = table.optional("server", |field| field.table("`[server]`", server::KEYS));
    let store = table.optional("store", |field| field.table("`[store]`", store::KEYS));
    let policies = table.optional("policies", Field::entries).unwrap_or_default();
    Config {
        file: source.name().to_owned(),
        oddities: server.map(|section| server::verify(&section)).unwrap_or_default(),
        store: store.map_or_else(StoreSpec::unsaid, |section| store::read(source, &section)),
        policies: policies.iter().filter_map(policy::read).collect(),
    }
}

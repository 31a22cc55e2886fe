//! Reading a table key by key, complaining about the keys it does not have.

use toml::de::DeTable;

use super::field::Field;
use super::key::{Key, Shape};
use super::nearest::{did_you_mean, nearest};
use super::problem::{Problem, Problems};

/// A table of the file together with the keys it may have.
pub(crate) struct Table<'doc> {
    /// What complaints call it: "a limit", "`[store]`".
    pub(crate) what: String,
    pub(crate) at: usize,
    entries: &'doc DeTable<'doc>,
    keys: &'static [Key],
    problems: &'doc Problems,
}

impl<'doc> Table<'doc> {
    pub(crate) fn new(
        what: String,
        at: usize,
        entries: &'doc DeTable<'doc>,
        keys: &'static [Key],
        problems: &'doc Problems,
    ) -> Table<'doc> {
        Table { what, at, entries, keys, problems }
    }

    /// The value of a key, if it is there and `read` accepts it; a refusal becomes a complaint.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'doc>) -> Result<T, Problem>,
    ) -> Option<T> {
        self.field(name).and_then(|field| self.problems.keep(read(&field)))
    }

    /// As `optional`, and absence is a complaint as well.
    pub(crate) fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'doc>) -> Result<T, Problem>,
    ) -> Option<T> {
        self.needs(name);
        self.optional(name, read)
    }

    /// Complains if the key is absent, unless a misspelt one stands in its place: one slip, one
    /// complaint.
    pub(crate) fn needs(&self, name: &str) {
        let is_known = |written: &str| self.keys.iter().any(|key| key.name == written);
        let misspelt =
            |written: &str| nearest(written, self.keys.iter().map(|key| key.name)) == Some(name);
        let there = self
            .names()
            .any(|(written, _)| written == name || (!is_known(written) && misspelt(written)));
        if !there {
            let key = self.keys.iter().find(|key| key.name == name);
            let hint = key
                .and_then(|key| key.example)
                .map_or_else(String::new, |example| format!(", such as {example}"));
            self.complain(format!("{} needs `{name}`{hint}", self.what));
        }
    }

    /// The value of a key after `verify`, which has already complained if there is a reason to.
    pub(crate) fn verified<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'doc>) -> Result<T, Problem>,
    ) -> Option<T> {
        self.field(name).and_then(|field| read(&field).ok())
    }

    /// The strings of a list after `verify`; none if it is absent.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let list = self.verified(name, Field::list).unwrap_or_default();
        list.iter().filter_map(|field| field.text().ok()).map(str::to_owned).collect()
    }

    pub(crate) fn field(&self, name: &str) -> Option<Field<'doc>> {
        let key = self.keys.iter().find(|key| key.name == name)?;
        let value = self.entries.get(name)?;
        Some(Field { name: key.name, shape: &key.shape, value, problems: self.problems })
    }

    /// The keys that stand in the file, with their places.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&'doc str, usize)> {
        self.entries.keys().map(|name| (name.get_ref().as_ref(), name.span().start))
    }

    pub(crate) fn refuse_unknown_keys(&self) {
        for (name, at) in self.names() {
            if self.keys.iter().all(|key| key.name != name) {
                let hint = did_you_mean(name, self.keys.iter().map(|key| key.name));
                self.complain_at(at, format!("unknown key `{name}` in {}{hint}", self.what));
            }
        }
    }

    /// Every key must look as its shape says, in use or not.
    pub(crate) fn verify(&self) {
        for key in self.keys {
            if let Some(field) = self.field(key.name) {
                self.problems.keep(verify(&field));
            }
        }
        self.refuse_unknown_keys();
    }

    pub(crate) fn complain(&self, sentence: impl Into<String>) {
        self.complain_at(self.at, sentence);
    }

    pub(crate) fn complain_at(&self, at: usize, sentence: impl Into<String>) {
        self.problems.note(Problem::at(at, sentence));
    }
}

fn verify(field: &Field<'_>) -> Result<(), Problem> {
    match field.shape {
        Shape::Flag => field.flag().map(drop),
        Shape::Whole { .. } => field.whole().map(drop),
        Shape::Duration => field.micros().map(drop),
        Shape::Percent => field.percent().map(drop),
        Shape::Factor => field.factor().map(drop),
        Shape::Text | Shape::Syntax(_) => field.text().map(drop),
        Shape::Word(_) => field.word().map(drop),
        Shape::Table(keys) => {
            field.table(format!("`{}`", field.name), keys).map(|table| table.verify())
        }
        Shape::List(_) => {
            for element in field.list()? {
                field.problems.keep(verify(&element));
            }
            Ok(())
        }
        Shape::MapOf(_) => {
            for entry in field.entries()? {
                field.problems.keep(verify(&entry.field));
            }
            Ok(())
        }
        // These have readers of their own.
        Shape::Milliseconds | Shape::Limit => Ok(()),
    }
}

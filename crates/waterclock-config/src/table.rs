//! Tables of the file and their values, read as their keys say.
//!
//! Reading goes on after a fault, so that one run shows all of them.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use waterclock::{Decimal, Factor, Jitter, Rollout};

use super::duration::Micros;
use super::error::{Fault, Faults};
use super::fields::Percent;
use super::schema::{Key, MAX_UNITS, Shape};
use super::suggest::{did_you_mean, nearest, one_of, quoted, shown};

const MOST_DIGITS: &str = "a finite number of at most 18 digits";

/// A table of the file together with the keys it may have.
pub(crate) struct Table<'doc> {
    /// What messages call it: "a limit", "`[store]`".
    pub(crate) what: String,
    pub(crate) at: usize,
    entries: &'doc DeTable<'doc>,
    /// What applies where it does not say otherwise. Whose own faults are recorded already.
    inherited: Option<&'doc DeTable<'doc>>,
    keys: &'static [Key],
    faults: &'doc Faults,
}

impl<'doc> Table<'doc> {
    pub(crate) fn new(
        what: String,
        at: usize,
        entries: &'doc DeTable<'doc>,
        keys: &'static [Key],
        faults: &'doc Faults,
    ) -> Table<'doc> {
        Table { what, at, entries, inherited: None, keys, faults }
    }

    /// The same with the values of another table, which has been verified, for keys that are not in this one.
    pub(crate) fn inheriting(self, from: Option<&Table<'doc>>) -> Table<'doc> {
        Table { inherited: from.map(|from| from.entries), ..self }
    }

    /// The same with other keys.
    pub(crate) fn with_keys(self, keys: &'static [Key]) -> Table<'doc> {
        Table { keys, ..self }
    }

    /// Whether a key, which need not be one of the table's, has this text.
    pub(crate) fn is_text(&self, name: &str, text: &str) -> bool {
        self.entries.get(name).and_then(|value| value.get_ref().as_str()) == Some(text)
    }

    /// Where faults go.
    pub(crate) fn faults(&self) -> &'doc Faults {
        self.faults
    }

    /// The value of a key, if it is there and `read` accepts it; otherwise a fault is recorded.
    pub(crate) fn optional<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'doc>) -> Result<T, Fault>,
    ) -> Option<T> {
        self.field(name).and_then(|field| self.faults.keep(read(&field)))
    }

    /// As `optional`, and absence is a fault as well.
    pub(crate) fn required<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'doc>) -> Result<T, Fault>,
    ) -> Option<T> {
        self.needs(name);
        self.optional(name, read)
    }

    /// A fault if the key is absent, unless a misspelt one is in its place: one typo, one fault.
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
            self.fault(format!("{} needs `{name}`{hint}", self.what));
        }
    }

    /// The value of a key after `verify`, which has recorded its faults already.
    pub(crate) fn verified<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'doc>) -> Result<T, Fault>,
    ) -> Option<T> {
        self.field(name).and_then(|field| read(&field).ok())
    }

    /// The strings of a list after `verify`; none if it is absent.
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let list = self.verified(name, Field::list).unwrap_or_default();
        list.iter().filter_map(|field| field.text().ok()).map(str::to_owned).collect()
    }

    /// The value of a key in this table, or in the one that it inherits from.
    pub(crate) fn field(&self, name: &str) -> Option<Field<'doc>> {
        self.own_field(name).or_else(|| self.field_in(self.inherited?, name))
    }

    /// The value of a key in this table.
    pub(crate) fn own_field(&self, name: &str) -> Option<Field<'doc>> {
        self.field_in(self.entries, name)
    }

    fn field_in(&self, entries: &'doc DeTable<'doc>, name: &str) -> Option<Field<'doc>> {
        let key = self.keys.iter().find(|key| key.name == name)?;
        let value = entries.get(name)?;
        Some(Field { name: key.name, shape: &key.shape, value, faults: self.faults })
    }

    /// The keys in the file, with their places.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&'doc str, usize)> {
        self.entries.keys().map(|name| (name.get_ref().as_ref(), name.span().start))
    }

    pub(crate) fn refuse_unknown_keys(&self) {
        for (name, at) in self.names() {
            if self.keys.iter().all(|key| key.name != name) {
                let hint = did_you_mean(name, self.keys.iter().map(|key| key.name));
                self.fault_at(at, format!("unknown key `{name}` in {}{hint}", self.what));
            }
        }
    }

    /// Every key must look as its shape says, used or not.
    pub(crate) fn verify(&self) {
        for key in self.keys {
            if let Some(field) = self.own_field(key.name) {
                self.faults.keep(verify(&field));
            }
        }
        self.refuse_unknown_keys();
    }

    pub(crate) fn fault(&self, sentence: impl Into<String>) {
        self.fault_at(self.at, sentence);
    }

    pub(crate) fn fault_at(&self, at: usize, sentence: impl Into<String>) {
        self.faults.push(Fault::at(at, sentence));
    }
}

fn verify(field: &Field<'_>) -> Result<(), Fault> {
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
        Shape::WordOrTable(word, keys) => match field.value.get_ref() {
            DeValue::String(text) if *text == **word => Ok(()),
            DeValue::Table(_) => {
                field.table(format!("`{}`", field.name), keys).map(|table| table.verify())
            }
            _ => Err(field.must_be(&format!("\"{word}\" or a table"))),
        },
        Shape::List(_) => {
            for element in field.list()? {
                field.faults.keep(verify(&element));
            }
            Ok(())
        }
        Shape::MapOf(_) => {
            for entry in field.entries()? {
                field.faults.keep(verify(&entry.field));
            }
            Ok(())
        }
        // These have readers of their own.
        Shape::Milliseconds | Shape::Limit => Ok(()),
    }
}

/// A value under its key's name; an element of an array goes by the name of the array.
#[derive(Clone, Copy)]
pub(crate) struct Field<'doc> {
    pub(crate) name: &'static str,
    pub(crate) shape: &'static Shape,
    pub(crate) value: &'doc Spanned<DeValue<'doc>>,
    pub(crate) faults: &'doc Faults,
}

impl<'doc> Field<'doc> {
    pub(crate) fn at(&self) -> usize {
        self.value.span().start
    }

    /// "`name` …": the rest is half a sentence.
    pub(crate) fn fault(&self, rest: impl AsRef<str>) -> Fault {
        Fault::at(self.at(), format!("`{}` {}", self.name, rest.as_ref()))
    }

    pub(crate) fn must_be(&self, what: &str) -> Fault {
        self.fault(format!("must be {what}; found {}", shown(self.value.get_ref())))
    }

    pub(crate) fn flag(&self) -> Result<bool, Fault> {
        self.value.get_ref().as_bool().ok_or_else(|| self.must_be("`true` or `false`"))
    }

    pub(crate) fn text(&self) -> Result<&'doc str, Fault> {
        let text = self.value.get_ref().as_str().ok_or_else(|| self.must_be("a string"))?;
        match self.shape {
            Shape::Syntax(accept) => accept(text).map_err(|rest| self.fault(rest)).map(|()| text),
            _ => Ok(text),
        }
    }

    pub(crate) fn whole(&self) -> Result<u64, Fault> {
        let (least, most) = match self.shape {
            Shape::Whole { least, most } => (*least, *most),
            _ => (0, MAX_UNITS),
        };
        let DeValue::Integer(integer) = self.value.get_ref() else {
            return Err(self.must_be("a whole number"));
        };
        if integer.as_str().starts_with('-') {
            return Err(self.fault(format!("must not be negative; found {integer}")));
        }
        match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(whole) if whole < least => Err(self.must_be(&format!("at least {least}"))),
            Ok(whole) if whole <= most => Ok(whole),
            _ => Err(self.must_be(&format!("at most {most}"))),
        }
    }

    pub(crate) fn micros(&self) -> Result<Micros, Fault> {
        match self.value.get_ref() {
            DeValue::String(text) => {
                Micros::parse(text).map_err(|error| self.fault(error.to_string()))
            }
            _ => Err(self.must_be("a duration such as \"250ms\", \"1s\" or \"1h30m\"")),
        }
    }

    /// One of the words its key lists.
    pub(crate) fn word(&self) -> Result<&'static str, Fault> {
        let Shape::Word(words) = self.shape else {
            return Err(self.must_be("a word"));
        };
        let Some(text) = self.value.get_ref().as_str() else {
            return Err(self.must_be(&one_of(words)));
        };
        words.iter().find(|word| **word == text).copied().ok_or_else(|| {
            let hint = did_you_mean(text, words.iter().copied());
            self.fault(format!("must be {}; found {}{hint}", one_of(words), quoted(text)))
        })
    }

    /// A share of keys, exact to hundredths of a percent.
    pub(crate) fn percent(&self) -> Result<Rollout, Fault> {
        self.hundredths()
            .and_then(|Percent(hundredths)| Rollout::new(u16::try_from(hundredths).ok()?))
            .ok_or_else(|| self.must_be("from \"0%\" to \"100%\" with at most two decimals"))
    }

    /// A share of a wait, exact to hundredths of a percent.
    pub(crate) fn jitter(&self) -> Result<Jitter, Fault> {
        self.percent().map(|share| Jitter::new(share.hundredths()).unwrap_or_default())
    }

    /// A share of errors, in hundredths of a percent.
    pub(crate) fn threshold(&self) -> Result<Percent, Fault> {
        let share = self.hundredths().filter(|share| (1..=10_000).contains(&share.0));
        share.ok_or_else(|| self.must_be("from \"0.01%\" to \"100%\" with at most two decimals"))
    }

    /// Of a percentage.
    fn hundredths(&self) -> Option<Percent> {
        Percent::parse(self.value.get_ref().as_str()?)
    }

    /// What limits are multiplied by.
    pub(crate) fn factor(&self) -> Result<Factor, Fault> {
        Factor::try_from(self.decimal()?).map_err(|_| self.must_be(MOST_DIGITS))
    }

    /// A number that is not negative, exactly as it is written.
    pub(crate) fn decimal(&self) -> Result<Decimal, Fault> {
        let written = match self.value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => return Err(self.must_be("a number")),
        };
        if written.starts_with('-') {
            return Err(self.fault(format!("must not be negative; found {written}")));
        }
        let number = Decimal::parse_scientific(written.trim_start_matches('+'));
        number.ok_or_else(|| self.must_be(MOST_DIGITS))
    }

    pub(crate) fn list(&self) -> Result<Vec<Field<'doc>>, Fault> {
        let shape = match self.shape {
            Shape::List(shape) => shape,
            other => other,
        };
        let elements =
            self.value.get_ref().as_array().ok_or_else(|| match self.value.get_ref() {
                DeValue::String(text) if !matches!(shape, Shape::Table(_)) => {
                    self.fault(format!("must be an array; write [{}]", quoted(text)))
                }
                DeValue::Table(_) if matches!(shape, Shape::Limit | Shape::Table(_)) => {
                    self.fault("must be an array; write [{ … }]")
                }
                _ => self.must_be("an array"),
            })?;
        Ok(elements.iter().map(|value| Field { shape, value, ..*self }).collect())
    }

    /// The value as a table with these keys; `what` is its name in messages.
    pub(crate) fn table(
        &self,
        what: impl Into<String>,
        keys: &'static [Key],
    ) -> Result<Table<'doc>, Fault> {
        let entries = self.value.get_ref().as_table().ok_or_else(|| self.must_be("a table"))?;
        Ok(Table::new(what.into(), self.at(), entries, keys, self.faults))
    }

    /// The entries of a table whose keys the user chose, in the order of the file.
    pub(crate) fn entries(&self) -> Result<Vec<Entry<'doc>>, Fault> {
        let table = self.value.get_ref().as_table().ok_or_else(|| self.must_be("a table"))?;
        let shape = match self.shape {
            Shape::MapOf(shape) => shape,
            other => other,
        };
        let mut entries: Vec<Entry<'doc>> = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref(),
                at: key.span().start,
                field: Field { shape, value, ..*self },
            })
            .collect();
        entries.sort_by_key(|entry| entry.at);
        Ok(entries)
    }
}

/// A key that the user chose, its place and its value.
pub(crate) struct Entry<'doc> {
    pub(crate) key: &'doc str,
    pub(crate) at: usize,
    pub(crate) field: Field<'doc>,
}

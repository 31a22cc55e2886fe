//! One value of the file, read as what its key says it is.

use toml::Spanned;
use toml::de::DeValue;
use waterclock::{Factor, Rollout};

use super::decimal::Decimal;
use super::key::{Key, MAX_UNITS, Shape};
use super::micros::Micros;
use super::nearest::did_you_mean;
use super::problem::{Problem, Problems};
use super::table::Table;
use super::wording::{one_of, quoted, shown};

const MOST_DIGITS: &str = "a finite number of at most 18 digits";

/// A value under its key's name; an element of an array goes by the name of the array.
#[derive(Clone, Copy)]
pub(crate) struct Field<'doc> {
    pub(crate) name: &'static str,
    pub(crate) shape: &'static Shape,
    pub(crate) value: &'doc Spanned<DeValue<'doc>>,
    pub(crate) problems: &'doc Problems,
}

impl<'doc> Field<'doc> {
    pub(crate) fn at(&self) -> usize {
        self.value.span().start
    }

    /// "`name` …": the rest is half a sentence.
    pub(crate) fn problem(&self, rest: impl AsRef<str>) -> Problem {
        Problem::at(self.at(), format!("`{}` {}", self.name, rest.as_ref()))
    }

    pub(crate) fn must_be(&self, what: &str) -> Problem {
        self.problem(format!("must be {what}; found {}", shown(self.value.get_ref())))
    }

    pub(crate) fn flag(&self) -> Result<bool, Problem> {
        self.value.get_ref().as_bool().ok_or_else(|| self.must_be("`true` or `false`"))
    }

    pub(crate) fn text(&self) -> Result<&'doc str, Problem> {
        let text = self.value.get_ref().as_str().ok_or_else(|| self.must_be("a string"))?;
        match self.shape {
            Shape::Syntax(accept) => accept(text).map_err(|rest| self.problem(rest)).map(|()| text),
            _ => Ok(text),
        }
    }

    pub(crate) fn whole(&self) -> Result<u64, Problem> {
        let (least, most) = match self.shape {
            Shape::Whole { least, most } => (*least, *most),
            _ => (0, MAX_UNITS),
        };
        let DeValue::Integer(integer) = self.value.get_ref() else {
            return Err(self.must_be("a whole number"));
        };
        if integer.as_str().starts_with('-') {
            return Err(self.problem(format!("must not be negative; found {integer}")));
        }
        match u64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(whole) if whole < least => Err(self.must_be(&format!("at least {least}"))),
            Ok(whole) if whole <= most => Ok(whole),
            _ => Err(self.must_be(&format!("at most {most}"))),
        }
    }

    pub(crate) fn micros(&self) -> Result<Micros, Problem> {
        match self.value.get_ref() {
            DeValue::String(text) => Micros::parse(text).map_err(|rest| self.problem(rest)),
            _ => Err(self.must_be("a duration such as \"250ms\", \"1s\" or \"1h30m\"")),
        }
    }

    /// A time of the old limits: a duration, or a number of milliseconds; 0 is one too.
    pub(crate) fn milliseconds(&self) -> Result<Micros, Problem> {
        if let DeValue::String(text) = self.value.get_ref() {
            return Micros::parse_or_zero(text).map_err(|rest| self.problem(rest));
        }
        let milliseconds = self.decimal()?;
        if milliseconds.exceeds(Micros::MAX.0 / 1_000) {
            return Err(self.must_be("at most 100 years"));
        }
        milliseconds
            .times(1_000)
            .map(Micros)
            .ok_or_else(|| self.must_be("a whole number of microseconds"))
    }

    /// One of the words its key lists.
    pub(crate) fn word(&self) -> Result<&'static str, Problem> {
        let Shape::Word(words) = self.shape else {
            return Err(self.must_be("a word"));
        };
        let Some(text) = self.value.get_ref().as_str() else {
            return Err(self.must_be(&one_of(words)));
        };
        words.iter().find(|word| **word == text).copied().ok_or_else(|| {
            let hint = did_you_mean(text, words.iter().copied());
            self.problem(format!("must be {}; found {}{hint}", one_of(words), quoted(text)))
        })
    }

    /// A share of keys, exact to hundredths of a percent.
    pub(crate) fn percent(&self) -> Result<Rollout, Problem> {
        self.hundredths()
            .and_then(|hundredths| Rollout::new(u16::try_from(hundredths).ok()?))
            .ok_or_else(|| self.must_be("from \"0%\" to \"100%\" with at most two decimals"))
    }

    /// A share of errors, in hundredths of a percent.
    pub(crate) fn threshold(&self) -> Result<u64, Problem> {
        let hundredths = self.hundredths().filter(|hundredths| (1..=10_000).contains(hundredths));
        hundredths
            .ok_or_else(|| self.must_be("from \"0.01%\" to \"100%\" with at most two decimals"))
    }

    /// Of a percentage.
    fn hundredths(&self) -> Option<u64> {
        let text = self.value.get_ref().as_str()?;
        text.strip_suffix('%').and_then(Decimal::parse).and_then(|percent| percent.times(100))
    }

    /// What limits are multiplied by.
    pub(crate) fn factor(&self) -> Result<Factor, Problem> {
        self.decimal()?.factor().ok_or_else(|| self.must_be(MOST_DIGITS))
    }

    /// A number that is not negative, exactly as it is written.
    pub(crate) fn decimal(&self) -> Result<Decimal, Problem> {
        let written = match self.value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => return Err(self.must_be("a number")),
        };
        if written.starts_with('-') {
            return Err(self.problem(format!("must not be negative; found {written}")));
        }
        Decimal::parse(written.trim_start_matches('+')).ok_or_else(|| self.must_be(MOST_DIGITS))
    }

    pub(crate) fn list(&self) -> Result<Vec<Field<'doc>>, Problem> {
        let shape = match self.shape {
            Shape::List(shape) => shape,
            other => other,
        };
        let elements =
            self.value.get_ref().as_array().ok_or_else(|| match self.value.get_ref() {
                DeValue::String(text) if !matches!(shape, Shape::Table(_)) => {
                    self.problem(format!("must be an array; write [{}]", quoted(text)))
                }
                DeValue::Table(_) if matches!(shape, Shape::Limit | Shape::Table(_)) => {
                    self.problem("must be an array; write [{ … }]")
                }
                _ => self.must_be("an array"),
            })?;
        Ok(elements.iter().map(|value| Field { shape, value, ..*self }).collect())
    }

    /// The table this value is, to be read with these keys; `what` is how complaints call it.
    pub(crate) fn table(
        &self,
        what: impl Into<String>,
        keys: &'static [Key],
    ) -> Result<Table<'doc>, Problem> {
        let entries = self.value.get_ref().as_table().ok_or_else(|| self.must_be("a table"))?;
        Ok(Table::new(what.into(), self.at(), entries, keys, self.problems))
    }

    /// The entries of a table whose keys the user chose, in the order of the file.
    pub(crate) fn entries(&self) -> Result<Vec<Entry<'doc>>, Problem> {
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

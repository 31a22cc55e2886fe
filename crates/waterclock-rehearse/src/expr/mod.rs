//! A small language for what a line of a log means: `segments(path, 2) + " " + client_ip`.
//!
//! A text is parsed once (`parse`), kinds of values and constant parts are checked before the first line (`tree`), and
//! then it is evaluated for every line (`eval`).

mod eval;
mod function;
mod parse;
mod tree;
mod value;

pub(crate) use self::tree::Part;
pub(crate) use self::value::{Kind, Value, quoted};

use self::tree::Mistake;

/// The fields that an expression may name.
pub(crate) trait Names {
    /// The place of a field and the kind of its values, or a sentence that says which fields there are.
    fn find(&mut self, name: &str) -> Result<(usize, Kind), String>;

    /// Whether there is such a field, as far as the first line tells.
    fn has(&mut self, name: &str) -> bool {
        self.find(name).is_ok()
    }
}

/// The fields of one line.
pub(crate) trait Row {
    /// The value of a field.
    fn value(&self, place: usize) -> Value<'_>;
    /// The name of a field, for error messages.
    fn name(&self, place: usize) -> String;
}

/// An expression that has been checked.
pub(crate) struct Expression {
    root: Part,
}

impl Expression {
    /// Parses the value of a flag.
    pub(crate) fn parse(
        flag: &str,
        text: &str,
        names: &mut dyn Names,
        wanted: Kind,
    ) -> Result<Expression, String> {
        let mut read = || {
            let mut root = parse::parse(text, names)?;
            tree::infer(&mut root, wanted)?;
            tree::check(&root)?;
            Ok(Expression { root })
        };
        read().map_err(|mistake: Mistake| mistake.at_place(flag, text))
    }

    /// An expression that was built rather than written.
    pub(crate) fn of(root: Part) -> Expression {
        Expression { root }
    }

    /// Its value for a line, or a sentence that says why it has none.
    pub(crate) fn eval<'v>(&'v self, row: &'v dyn Row) -> Result<Value<'v>, String> {
        eval::eval(&self.root, row)
    }

    /// Its value, if that is the same for every line.
    pub(crate) fn constant(&self) -> Option<Value<'_>> {
        tree::constant(&self.root)?.ok()
    }

    /// The first field that is missing in a line.
    pub(crate) fn missing(&self, row: &dyn Row) -> Option<String> {
        self.root
            .fields()
            .into_iter()
            .find_map(|place| matches!(row.value(place), Value::Missing).then(|| row.name(place)))
    }
}

#[cfg(test)]
mod tests;

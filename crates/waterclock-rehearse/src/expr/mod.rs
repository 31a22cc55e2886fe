//! A small language for what a line of a log means: `segments(path, 2) + " " + client_ip`.
//!
//! A text is read once ([`parse`]), what its signs mean to fields of no known kind is settled by what is
//! wanted of it ([`settle`]), what is the same in every line is tried ([`constant`]), and then it is worked out for every line ([`eval`]).

mod constant;
mod eval;
mod function;
mod kind;
mod parse;
mod part;
mod ratio;
mod settle;
mod token;
mod value;

pub use self::kind::Kind;
pub use self::part::{Complaint, Part};
pub use self::ratio::Ratio;
pub use self::value::{Value, quoted};

/// The fields that an expression may name.
pub trait Names {
    /// Where a field is found and what it holds, or one sentence that says what is there instead.
    fn find(&mut self, name: &str) -> Result<(usize, Kind), String>;

    /// Whether there is such a field, as far as can be told before all is read.
    fn has(&mut self, name: &str) -> bool {
        self.find(name).is_ok()
    }
}

/// The fields of one line.
pub trait Row {
    /// What stands in a field.
    fn value(&self, place: usize) -> Value<'_>;
    /// The name of a field, for complaints.
    fn name(&self, place: usize) -> String;
}

/// An expression that is known to make sense.
pub struct Expression {
    root: Part,
}

impl Expression {
    /// Reads the value of a flag.
    pub fn parse(
        flag: &str,
        text: &str,
        names: &mut dyn Names,
        wanted: Kind,
    ) -> Result<Expression, String> {
        let mut read = || {
            let mut root = parse::parse(text, names)?;
            settle::settle(&mut root, wanted)?;
            constant::check(&root)?;
            Ok(Expression { root })
        };
        read().map_err(|complaint: Complaint| complaint.told(flag, text))
    }

    /// What was not written but is meant.
    pub fn of(root: Part) -> Expression {
        Expression { root }
    }

    /// What it is for a line; or why that cannot be said, in one sentence.
    pub fn eval<'v>(&'v self, row: &'v dyn Row) -> Result<Value<'v>, String> {
        eval::eval(&self.root, row)
    }

    /// What it is in every line, if no line has a say in it.
    pub fn constant(&self) -> Option<Value<'_>> {
        constant::value(&self.root)?.ok()
    }

    /// The first field that keeps it from having a value.
    pub fn missing(&self, row: &dyn Row) -> Option<String> {
        self.root
            .fields()
            .into_iter()
            .find_map(|place| matches!(row.value(place), Value::Missing).then(|| row.name(place)))
    }
}

#[cfg(test)]
mod tests;

//! The vocabulary of the file: which keys a table takes and what each of them looks like.
//!
//! Readers, their suggestions and the published schema all use these same tables, so that none
//! of them can know a key which the others do not.

pub(crate) use waterclock::MAX_UNITS;

/// One key of a table.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// The default as JSON, where there is one.
    pub(crate) default: Option<&'static str>,
    /// A value as a file would have it, for keys that must be there.
    pub(crate) example: Option<&'static str>,
    pub(crate) says: &'static str,
}

impl Key {
    pub(crate) const fn new(name: &'static str, shape: Shape, says: &'static str) -> Key {
        Key { name, shape, default: None, example: None, says }
    }

    pub(crate) const fn default(self, default: &'static str) -> Key {
        Key { default: Some(default), ..self }
    }

    pub(crate) const fn such_as(self, example: &'static str) -> Key {
        Key { example: Some(example), ..self }
    }
}

/// What a value looks like.
pub(crate) enum Shape {
    /// `true` or `false`.
    Flag,
    /// An integer in this range.
    Whole { least: u64, most: u64 },
    /// A string such as `"1h30m"`.
    Duration,
    /// The old limits' times: a duration, or a number of milliseconds.
    Milliseconds,
    /// A string such as `"12.5%"`.
    Percent,
    /// An exact decimal, 0 or more.
    Factor,
    /// Any string.
    Text,
    /// A string that this function accepts, or complains about in half a sentence.
    Syntax(fn(&str) -> Result<(), String>),
    /// One of these strings.
    Word(&'static [&'static str]),
    /// An array.
    List(&'static Shape),
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table whose keys the user chooses.
    MapOf(&'static Shape),
    /// A limit: a table, or shorthand.
    Limit,
}

/// An amount of units, at least one.
pub(crate) const UNITS: Shape = Shape::Whole { least: 1, most: MAX_UNITS };

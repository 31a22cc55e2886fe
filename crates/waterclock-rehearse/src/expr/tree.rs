//! An expression as a tree, and what is checked before the first line: kinds of values, and parts that no line
//! changes.

use waterclock_core::Decimal;

use super::Row;
use super::eval::{DIVIDED_BY_ZERO, eval};
use super::function::Function;
use super::value::{Kind, Value};

/// A part, and where it is written.
#[derive(Debug)]
pub(crate) struct Part {
    /// In bytes from the start.
    pub(super) at: usize,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Text(String),
    Number(Decimal),
    Truth(bool),
    Field(usize, Kind),
    Negate(Box<Part>),
    Not(Box<Part>),
    Pair(Operator, Box<[Part; 2]>),
    If(Box<[Part; 3]>),
    Call(Function, Vec<Part>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    Differ,
    Less,
    AtMost,
    More,
    AtLeast,
    Contains,
    /// Adds or joins, depending on the values of the line.
    Plus,
    Add,
    Join,
    Minus,
    Times,
    Over,
}

impl Part {
    /// A field.
    pub(crate) fn field(place: usize) -> Part {
        Part { at: 0, what: What::Field(place, Kind::Any) }
    }

    /// A text.
    pub(crate) fn text(text: &str) -> Part {
        Part { at: 0, what: What::Text(text.to_owned()) }
    }

    /// The network of an address, as the server groups clients.
    pub(crate) fn net(address: Part) -> Part {
        Part { at: 0, what: What::Call(Function::Net, vec![address]) }
    }

    /// Several values as one key, which no other values make.
    pub(crate) fn composed(parts: Vec<Part>) -> Part {
        Part { at: 0, what: What::Call(Function::Compose, parts) }
    }

    pub(super) fn kind(&self) -> Kind {
        match &self.what {
            What::Text(_) => Kind::Text,
            What::Number(_) | What::Negate(_) => Kind::Number,
            What::Truth(_) | What::Not(_) => Kind::Truth,
            What::Field(_, kind) => *kind,
            What::If(parts) => parts[1].kind().or(parts[2].kind()),
            What::Call(function, parts) => function.kind(parts),
            What::Pair(operator, parts) => match operator {
                Operator::Add | Operator::Minus | Operator::Times | Operator::Over => Kind::Number,
                Operator::Join => Kind::Text,
                Operator::Plus => match (parts[0].kind(), parts[1].kind()) {
                    (Kind::Text, _) | (_, Kind::Text) => Kind::Text,
                    (Kind::Number, _) | (_, Kind::Number) => Kind::Number,
                    _ => Kind::Any,
                },
                _ => Kind::Truth,
            },
        }
    }

    /// The parts it is made of.
    pub(super) fn parts(&self) -> &[Part] {
        match &self.what {
            What::Text(_) | What::Number(_) | What::Truth(_) | What::Field(..) => &[],
            What::Negate(part) | What::Not(part) => std::slice::from_ref(part),
            What::Pair(_, parts) => &parts[..],
            What::If(parts) => &parts[..],
            What::Call(_, parts) => parts,
        }
    }

    /// All fields it names, in the order of the text.
    pub(super) fn fields(&self) -> Vec<usize> {
        match self.what {
            What::Field(place, _) => vec![place],
            _ => self.parts().iter().flat_map(Part::fields).collect(),
        }
    }
}

/// What is wrong with an expression, and where.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) at: usize,
    pub(super) sentence: String,
}

impl Mistake {
    pub(super) fn new(at: usize, sentence: impl Into<String>) -> Mistake {
        Mistake { at, sentence: sentence.into() }
    }

    /// A sentence with line and column, as for files.
    pub(super) fn at_place(&self, flag: &str, text: &str) -> String {
        let before = text.get(..self.at).unwrap_or(text);
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.rsplit('\n').next().unwrap_or("").chars().count();
        format!("{flag}:{line}:{column}: {}", self.sentence)
    }
}

/// Passes the wanted kinds down the tree, decides whether each `+` adds or joins, and rejects parts of the
/// wrong kind.
///
/// A column of a CSV file may be text or a number. So that one expression does not add in one line and join in the
/// next, `+` is decided before the first line wherever something tells: a text beside it, a number beside it, or what
/// the whole is for.
pub(super) fn infer(part: &mut Part, wanted: Kind) -> Result<(), Mistake> {
    let at = part.at;
    match &mut part.what {
        What::Negate(inner) => infer(inner, Kind::Number)?,
        What::Not(inner) => infer(inner, Kind::Truth)?,
        What::If(parts) => {
            let [condition, then, otherwise] = &mut **parts;
            infer(condition, Kind::Truth)?;
            infer(then, wanted)?;
            infer(otherwise, wanted)?;
        }
        What::Call(function, parts) => {
            for (place, value) in parts.iter_mut().enumerate() {
                infer(value, function.wants(place, wanted))?;
            }
        }
        What::Pair(operator, parts) => {
            let kinds = (parts[0].kind(), parts[1].kind());
            if *operator == Operator::Plus {
                *operator = plus(kinds, wanted);
            }
            let (first, second) = wants(*operator, kinds);
            infer(&mut parts[0], first)?;
            infer(&mut parts[1], second)?;
        }
        What::Text(_) | What::Number(_) | What::Truth(_) | What::Field(..) => {}
    }
    let found = part.kind();
    let fits = match wanted {
        Kind::Any | Kind::Text => true,
        Kind::Number | Kind::Truth => found == wanted || found == Kind::Any,
    };
    if fits { Ok(()) } else { Err(Mistake::new(at, unfit(found, wanted))) }
}

fn plus(kinds: (Kind, Kind), wanted: Kind) -> Operator {
    match (kinds, wanted) {
        ((Kind::Text, _) | (_, Kind::Text), _) => Operator::Join,
        // Before what is wanted, so that `n + 1` is the same alone and as a part of `n + 1 + 2`.
        ((Kind::Number, _) | (_, Kind::Number), _) | (_, Kind::Number) => Operator::Add,
        (_, Kind::Text) => Operator::Join,
        _ => Operator::Plus,
    }
}

fn wants(operator: Operator, kinds: (Kind, Kind)) -> (Kind, Kind) {
    match operator {
        Operator::Or | Operator::And => (Kind::Truth, Kind::Truth),
        Operator::Contains | Operator::Join => (Kind::Text, Kind::Text),
        Operator::Add | Operator::Minus | Operator::Times | Operator::Over => {
            (Kind::Number, Kind::Number)
        }
        Operator::Plus => (Kind::Any, Kind::Any),
        // What is compared with a number is meant to be one.
        _ => match kinds {
            (Kind::Number, Kind::Any) => (Kind::Any, Kind::Number),
            (Kind::Any, Kind::Number) => (Kind::Number, Kind::Any),
            _ => (Kind::Any, Kind::Any),
        },
    }
}

fn unfit(found: Kind, wanted: Kind) -> String {
    let found = found.words();
    match wanted {
        Kind::Truth => format!("expected a condition such as status >= 400; this is {found}"),
        _ => {
            format!("expected a number; this is {found}; number(…) reads a number from text")
        }
    }
}

/// Rejects parts that have a value for no line.
pub(super) fn check(part: &Part) -> Result<(), Mistake> {
    let known = constant(part);
    if let Some(Ok(_)) = known {
        return Ok(());
    }
    // The innermost first: that is where the mistake is.
    part.parts().iter().try_for_each(check)?;
    match (&part.what, known) {
        (What::Pair(Operator::Over, parts), _) if is_zero(&parts[1]) => {
            Err(Mistake::new(parts[1].at, DIVIDED_BY_ZERO))
        }
        (_, Some(Err(sentence))) => Err(Mistake::new(part.at, sentence)),
        (What::Call(function @ (Function::Segments | Function::Net), parts), None) => {
            let Some((first, values)) = parts.get(1).zip(numbers(parts)) else { return Ok(()) };
            let mistake = |sentence| Mistake::new(first.at, sentence);
            function.call(values).map(drop).map_err(mistake)
        }
        _ => Ok(()),
    }
}

fn is_zero(part: &Part) -> bool {
    matches!(constant(part), Some(Ok(Value::Number(number))) if number.is_zero())
}

/// The constant numbers that a function is called with, behind a text that does not matter to them.
fn numbers(parts: &[Part]) -> Option<Vec<Value<'_>>> {
    let numbers = parts.iter().skip(1).map(|part| constant(part)?.ok());
    std::iter::once(Some(Value::text(""))).chain(numbers).collect()
}

/// The value of a part that names no field.
pub(super) fn constant(part: &Part) -> Option<Result<Value<'_>, String>> {
    part.fields().is_empty().then(|| eval(part, &NoLine))
}

struct NoLine;

impl Row for NoLine {
    fn value(&self, _place: usize) -> Value<'_> {
        Value::Missing
    }

    fn name(&self, _place: usize) -> String {
        String::new()
    }
}

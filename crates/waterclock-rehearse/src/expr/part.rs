//! An expression in parts.

use super::function::Function;
use super::kind::Kind;
use super::ratio::Ratio;

/// A part, and where it is written.
#[derive(Debug)]
pub struct Part {
    /// In bytes from the start.
    pub(super) at: usize,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Text(String),
    Number(Ratio),
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
    /// Adds or joins, as the values of the line are.
    Plus,
    Add,
    Join,
    Minus,
    Times,
    Over,
}

impl Part {
    /// A field that is meant without having been written.
    pub fn field(place: usize) -> Part {
        Part { at: 0, what: What::Field(place, Kind::Any) }
    }

    /// A text that is meant without having been written.
    pub fn text(text: &str) -> Part {
        Part { at: 0, what: What::Text(text.to_owned()) }
    }

    /// The network that an address is grouped by.
    pub fn net(address: Part) -> Part {
        Part { at: 0, what: What::Call(Function::Net, vec![address]) }
    }

    /// Several values in one text that no other values make.
    pub fn composed(parts: Vec<Part>) -> Part {
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
pub struct Complaint {
    pub(super) at: usize,
    pub(super) sentence: String,
}

impl Complaint {
    pub(super) fn new(at: usize, sentence: impl Into<String>) -> Complaint {
        Complaint { at, sentence: sentence.into() }
    }

    /// With line and column, as complaints about files have them.
    pub(super) fn told(&self, flag: &str, text: &str) -> String {
        let before = text.get(..self.at).unwrap_or(text);
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.rsplit('\n').next().unwrap_or("").chars().count();
        format!("{flag}:{line}:{column}: {}", self.sentence)
    }
}

//! From a text to its parts, by precedence climbing.

use waterclock_config::did_you_mean;

use super::Names;
use super::function::Function;
use super::part::{Complaint, Operator, Part, What};
use super::token::{Token, tokens};

/// How many parts an expression may have: it is worked out by calls within calls.
const MOST_PARTS: usize = 200;

/// How tightly signs bind their sides.
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const MINUS: u8 = 7;

pub(super) fn parse(text: &str, names: &mut dyn Names) -> Result<Part, Complaint> {
    let tokens = tokens(text)?;
    if tokens.len() > MOST_PARTS {
        let sentence = format!("an expression has at most {MOST_PARTS} words and signs");
        return Err(Complaint::new(0, sentence));
    }
    let mut parser = Parser { tokens, next: 0, names };
    let part = parser.expression(0)?;
    match parser.peek() {
        Token::End => Ok(part),
        _ => Err(parser.complain("an operator such as `+` or the end")),
    }
}

struct Parser<'t, 'n> {
    tokens: Vec<(usize, Token<'t>)>,
    next: usize,
    names: &'n mut dyn Names,
}

impl<'t> Parser<'t, '_> {
    fn peek(&self) -> &Token<'t> {
        self.tokens.get(self.next).map_or(&Token::End, |(_, token)| token)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(0, |(at, _)| *at)
    }

    fn take(&mut self) -> Token<'t> {
        let token = self.peek().clone();
        // The end is never passed.
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn takes(&mut self, expected: &Token<'_>) -> bool {
        let is_it = self.peek() == expected;
        if is_it {
            self.take();
        }
        is_it
    }

    fn expect(&mut self, expected: &Token<'_>, said: &str) -> Result<(), Complaint> {
        if self.takes(expected) { Ok(()) } else { Err(self.complain(said)) }
    }

    fn complain(&self, expected: &str) -> Complaint {
        let found = match self.peek() {
            Token::Name(name) => format!("`{name}`"),
            Token::Text(_) => "a text".to_owned(),
            Token::Number(number) => format!("`{number}`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end".to_owned(),
        };
        Complaint::new(self.at(), format!("here must be {expected}; found {found}"))
    }

    /// What binds more tightly than `least`.
    fn expression(&mut self, least: u8) -> Result<Part, Complaint> {
        let mut part = self.operand()?;
        while let Some((operator, power)) =
            operator(self.peek()).filter(|(_, power)| *power > least)
        {
            self.take();
            let other = self.expression(power)?;
            part = Part { at: part.at, what: What::Pair(operator, Box::new([part, other])) };
            if power == COMPARE && self::operator(self.peek()).is_some_and(|next| next.1 == COMPARE)
            {
                return Err(self.complain("`and` or `or` between two comparisons"));
            }
        }
        Ok(part)
    }

    fn operand(&mut self) -> Result<Part, Complaint> {
        let at = self.at();
        let what = match self.peek().clone() {
            Token::Text(text) => self.one(What::Text(text)),
            Token::Number(number) => self.one(What::Number(number)),
            Token::Sign("-") => {
                self.take();
                What::Negate(Box::new(self.expression(MINUS)?))
            }
            Token::Sign("(") => {
                self.take();
                let inner = self.expression(0)?;
                self.expect(&Token::Sign(")"), "`)`")?;
                return Ok(inner);
            }
            Token::Name("not") => {
                self.take();
                What::Not(Box::new(self.expression(NOT)?))
            }
            Token::Name("if") => self.choice()?,
            Token::Name("true") => self.one(What::Truth(true)),
            Token::Name("false") => self.one(What::Truth(false)),
            Token::Name(name) if !["then", "else", "and", "or"].contains(&name) => {
                self.take();
                if self.takes(&Token::Sign("(")) {
                    self.call(at, name)?
                } else {
                    self.field(at, name)?
                }
            }
            _ => return Err(self.complain("a field, a number, a text in quotes or `(`")),
        };
        Ok(Part { at, what })
    }

    fn one(&mut self, what: What) -> What {
        self.take();
        what
    }

    fn choice(&mut self) -> Result<What, Complaint> {
        self.take();
        let condition = self.expression(0)?;
        self.expect(&Token::Name("then"), "`then`")?;
        let then = self.expression(0)?;
        self.expect(&Token::Name("else"), "`else`")?;
        let otherwise = self.expression(0)?;
        Ok(What::If(Box::new([condition, then, otherwise])))
    }

    fn field(&mut self, at: usize, name: &str) -> Result<What, Complaint> {
        let found = self.names.find(name);
        let (place, kind) = found.map_err(|sentence| Complaint::new(at, sentence))?;
        Ok(What::Field(place, kind))
    }

    /// After the opening parenthesis.
    fn call(&mut self, at: usize, name: &str) -> Result<What, Complaint> {
        if name == "field" {
            return self.field_by_text(at);
        }
        let function = Function::named(name).ok_or_else(|| {
            let hint = did_you_mean(name, Function::names());
            let known: Vec<&str> = Function::names().collect();
            let known = known.join(", ");
            Complaint::new(
                at,
                format!("there is no function `{name}`{hint}; there are field, {known}"),
            )
        })?;
        let mut values = Vec::new();
        while !self.takes(&Token::Sign(")")) {
            if !values.is_empty() {
                self.expect(&Token::Sign(","), "`,` or `)`")?;
            }
            values.push(self.expression(0)?);
        }
        match function.refuses(values.len()) {
            Some(example) => Err(Complaint::new(at, format!("write {example}"))),
            None => Ok(What::Call(function, values)),
        }
    }

    /// `field("user-agent")`: a field whose name is no name here.
    fn field_by_text(&mut self, at: usize) -> Result<What, Complaint> {
        let Token::Text(name) = self.peek().clone() else {
            return Err(self.complain("the name of a field in quotes"));
        };
        self.take();
        self.expect(&Token::Sign(")"), "`)`")?;
        self.field(at, &name)
    }
}

fn operator(token: &Token<'_>) -> Option<(Operator, u8)> {
    Some(match token {
        Token::Name("or") => (Operator::Or, 1),
        Token::Name("and") => (Operator::And, 2),
        Token::Sign("==") => (Operator::Equal, COMPARE),
        Token::Sign("!=") => (Operator::Differ, COMPARE),
        Token::Sign("<") => (Operator::Less, COMPARE),
        Token::Sign("<=") => (Operator::AtMost, COMPARE),
        Token::Sign(">") => (Operator::More, COMPARE),
        Token::Sign(">=") => (Operator::AtLeast, COMPARE),
        Token::Sign("~") => (Operator::Contains, COMPARE),
        Token::Sign("+") => (Operator::Plus, 5),
        Token::Sign("-") => (Operator::Minus, 5),
        Token::Sign("*") => (Operator::Times, 6),
        Token::Sign("/") => (Operator::Over, 6),
        _ => return None,
    })
}

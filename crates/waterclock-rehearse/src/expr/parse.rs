//! From a text to a tree, by precedence climbing.

use waterclock_config::did_you_mean;
use waterclock_core::Decimal;

use super::Names;
use super::function::Function;
use super::tree::{Mistake, Operator, Part, What};

/// How many tokens an expression may have: it is evaluated recursively.
const MOST_PARTS: usize = 200;

/// How tightly operators bind.
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const MINUS: u8 = 7;

pub(super) fn parse(text: &str, names: &mut dyn Names) -> Result<Part, Mistake> {
    let tokens = tokens(text)?;
    if tokens.len() > MOST_PARTS {
        let sentence = format!("an expression has at most {MOST_PARTS} words and operators");
        return Err(Mistake::new(0, sentence));
    }
    let mut parser = Parser { tokens, next: 0, names };
    let part = parser.expression(0)?;
    match parser.peek() {
        Token::End => Ok(part),
        _ => Err(parser.mistake("an operator such as `+` or the end")),
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

    fn expect(&mut self, expected: &Token<'_>, name: &str) -> Result<(), Mistake> {
        if self.takes(expected) { Ok(()) } else { Err(self.mistake(name)) }
    }

    fn mistake(&self, expected: &str) -> Mistake {
        let found = match self.peek() {
            Token::Name(name) => format!("`{name}`"),
            Token::Text(_) => "a text".to_owned(),
            Token::Number(number) => format!("`{number}`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end".to_owned(),
        };
        Mistake::new(self.at(), format!("expected {expected}; found {found}"))
    }

    /// An expression of operators that bind more tightly than `least`.
    fn expression(&mut self, least: u8) -> Result<Part, Mistake> {
        let mut part = self.operand()?;
        while let Some((operator, power)) =
            operator(self.peek()).filter(|(_, power)| *power > least)
        {
            self.take();
            let other = self.expression(power)?;
            part = Part { at: part.at, what: What::Pair(operator, Box::new([part, other])) };
            if power == COMPARE && self::operator(self.peek()).is_some_and(|next| next.1 == COMPARE)
            {
                return Err(self.mistake("`and` or `or` between two comparisons"));
            }
        }
        Ok(part)
    }

    fn operand(&mut self) -> Result<Part, Mistake> {
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
            _ => return Err(self.mistake("a field, a number, a text in quotes or `(`")),
        };
        Ok(Part { at, what })
    }

    fn one(&mut self, what: What) -> What {
        self.take();
        what
    }

    fn choice(&mut self) -> Result<What, Mistake> {
        self.take();
        let condition = self.expression(0)?;
        self.expect(&Token::Name("then"), "`then`")?;
        let then = self.expression(0)?;
        self.expect(&Token::Name("else"), "`else`")?;
        let otherwise = self.expression(0)?;
        Ok(What::If(Box::new([condition, then, otherwise])))
    }

    fn field(&mut self, at: usize, name: &str) -> Result<What, Mistake> {
        let found = self.names.find(name);
        let (place, kind) = found.map_err(|sentence| Mistake::new(at, sentence))?;
        Ok(What::Field(place, kind))
    }

    /// After the opening parenthesis.
    fn call(&mut self, at: usize, name: &str) -> Result<What, Mistake> {
        if name == "field" {
            return self.field_by_text(at);
        }
        let function = Function::named(name).ok_or_else(|| {
            let hint = did_you_mean(name, Function::names());
            let known: Vec<&str> = Function::names().collect();
            let known = known.join(", ");
            Mistake::new(
                at,
                format!("unknown function `{name}`{hint}; the functions are field, {known}"),
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
            Some(example) => Err(Mistake::new(at, format!("write {example}"))),
            None => Ok(What::Call(function, values)),
        }
    }

    /// `field("user-agent")`: a field whose name is not an identifier.
    fn field_by_text(&mut self, at: usize) -> Result<What, Mistake> {
        let Token::Text(name) = self.peek().clone() else {
            return Err(self.mistake("the name of a field in quotes"));
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

#[derive(Clone, Debug, PartialEq)]
enum Token<'t> {
    Name(&'t str),
    Text(String),
    Number(Decimal),
    Sign(&'static str),
    End,
}

/// Longer signs stand before those they begin with.
const SIGNS: [&str; 14] =
    ["==", "!=", "<=", ">=", "<", ">", "~", "+", "-", "*", "/", "(", ")", ","];
/// Operators of other languages, and ours.
const FOREIGN: [(&str, &str); 5] =
    [("&&", "and"), ("||", "or"), ("!", "not"), ("=", "=="), ("?", "if … then … else …")];

/// The tokens with their places in bytes; the last one is the end.
fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, Mistake> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let (length, token) = match rest.chars().next() {
            None => {
                found.push((at, Token::End));
                return Ok(found);
            }
            Some(quote @ ('"' | '\'')) => text_token(at, rest, quote)?,
            Some(first) if first.is_ascii_digit() => number_token(at, rest)?,
            Some(first) if starts_name(first) => {
                let length = name_length(rest);
                (length, Token::Name(&rest[..length]))
            }
            Some(first) => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (sign.len(), Token::Sign(sign)),
                None => return Err(Mistake::new(at, unknown(rest, first))),
            },
        };
        found.push((at, token));
        at += length;
    }
}

fn unknown(rest: &str, first: char) -> String {
    match FOREIGN.iter().find(|(sign, _)| rest.starts_with(sign)) {
        Some((sign, ours)) => format!("`{sign}` is not an operator; write `{ours}`"),
        None => format!("`{}` is not an operator", first.escape_debug()),
    }
}

fn starts_name(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_' || letter == '@'
}

fn goes_on_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '@'
}

/// A name, with points where more of it follows: `user.id`, `headers.0`.
fn name_length(rest: &str) -> usize {
    let mut letters = rest.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let mut more = || letters.peek().is_some_and(|(_, next)| goes_on_name(*next));
        if !(goes_on_name(letter) || letter == '.' && more()) {
            return at;
        }
    }
    rest.len()
}

fn number_token(at: usize, rest: &str) -> Result<(usize, Token<'_>), Mistake> {
    let end = rest.find(|letter: char| !(goes_on_name(letter) || letter == '.'));
    let written = &rest[..end.unwrap_or(rest.len())];
    match written.parse() {
        Ok(number) => Ok((written.len(), Token::Number(number))),
        Err(_) => {
            Err(Mistake::new(at, format!("`{written}` is not a number such as 1500 or 0.25")))
        }
    }
}

fn text_token(at: usize, rest: &str, quote: char) -> Result<(usize, Token<'_>), Mistake> {
    let mut text = String::new();
    let mut letters = rest.char_indices().skip(1);
    while let Some((end, letter)) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some((_, escaped @ ('"' | '\'' | '\\'))) => text.push(escaped),
                Some((_, 't')) => text.push('\t'),
                Some((_, 'n')) => text.push('\n'),
                _ => {
                    let sentence = r#"after a backslash come `"`, `'`, `\`, `t` or `n`"#;
                    return Err(Mistake::new(at + end, sentence));
                }
            },
            _ if letter == quote => return Ok((end + 1, Token::Text(text))),
            _ => text.push(letter),
        }
    }
    Err(Mistake::new(at, format!("this text has no end; close it with {quote}")))
}

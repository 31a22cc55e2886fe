//! What is wanted of each part of an expression, and what `+` does with it.
//!
//! A column of a CSV file may be text or a number. So that the same expression never adds in one line and
//! joins in the next, `+` is settled before the first line wherever something tells: a text beside it, a
//! number beside it, or what the whole is for.

use super::kind::Kind;
use super::part::{Complaint, Operator, Part, What};

/// Passes what is wanted down, and complains about what cannot be it.
pub(super) fn settle(part: &mut Part, wanted: Kind) -> Result<(), Complaint> {
    let at = part.at;
    match &mut part.what {
        What::Negate(inner) => settle(inner, Kind::Number)?,
        What::Not(inner) => settle(inner, Kind::Truth)?,
        What::If(parts) => {
            let [condition, then, otherwise] = &mut **parts;
            settle(condition, Kind::Truth)?;
            settle(then, wanted)?;
            settle(otherwise, wanted)?;
        }
        What::Call(function, parts) => {
            for (place, value) in parts.iter_mut().enumerate() {
                settle(value, function.wants(place, wanted))?;
            }
        }
        What::Pair(operator, parts) => {
            let kinds = (parts[0].kind(), parts[1].kind());
            if *operator == Operator::Plus {
                *operator = plus(kinds, wanted);
            }
            let (first, second) = wants(*operator, kinds);
            settle(&mut parts[0], first)?;
            settle(&mut parts[1], second)?;
        }
        What::Text(_) | What::Number(_) | What::Truth(_) | What::Field(..) => {}
    }
    let found = part.kind();
    let fits = match wanted {
        Kind::Any | Kind::Text => true,
        Kind::Number | Kind::Truth => found == wanted || found == Kind::Any,
    };
    if fits { Ok(()) } else { Err(Complaint::new(at, unfit(found, wanted))) }
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
    let found = found.said();
    match wanted {
        Kind::Truth => format!("here must be a condition such as status >= 400; this is {found}"),
        _ => {
            format!("here must be a number; this is {found}; number(…) reads a number from a text")
        }
    }
}

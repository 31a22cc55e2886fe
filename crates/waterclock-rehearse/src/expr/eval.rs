//! What an expression is for one line.

use std::cmp::Ordering;

use waterclock_core::Decimal;

use super::Row;
use super::function::Function;
use super::tree::{Operator, Part, What};
use super::value::Value;

pub(super) const DIVIDED_BY_ZERO: &str = "a number is divided by zero";
const TOO_LARGE: &str = "a number is too large to work with";

/// Evaluates a part. A missing value makes the whole missing, except in `or_else` and in comparisons.
pub(super) fn eval<'v>(part: &'v Part, row: &'v dyn Row) -> Result<Value<'v>, String> {
    Ok(match &part.what {
        What::Field(place, _) => row.value(*place),
        What::Text(text) => Value::text(text),
        What::Number(number) => Value::Number(*number),
        What::Truth(truth) => Value::Truth(*truth),
        What::Negate(inner) => match eval(inner, row)?.to_number()? {
            Some(number) => Value::Number(number.negative().ok_or(TOO_LARGE)?),
            None => Value::Missing,
        },
        What::Not(inner) => Value::Truth(!eval(inner, row)?.to_truth()?),
        What::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            let holds = eval(condition, row)?.to_truth()?;
            eval(if holds { then } else { otherwise }, row)?
        }
        What::Call(Function::OrElse, parts) => {
            for part in parts {
                let value = eval(part, row)?;
                if value != Value::Missing {
                    return Ok(value);
                }
            }
            Value::Missing
        }
        What::Call(function, parts) => {
            let values: Result<Vec<_>, String> = parts.iter().map(|part| eval(part, row)).collect();
            function.call(values?)?
        }
        What::Pair(operator, parts) => pair(*operator, &parts[0], &parts[1], row)?,
    })
}

fn pair<'v>(
    operator: Operator,
    one: &'v Part,
    other: &'v Part,
    row: &'v dyn Row,
) -> Result<Value<'v>, String> {
    let one = eval(one, row)?;
    // The second is not evaluated where the first decides.
    match operator {
        Operator::And if !one.to_truth()? => return Ok(Value::Truth(false)),
        Operator::Or if one.to_truth()? => return Ok(Value::Truth(true)),
        _ => {}
    }
    let other = eval(other, row)?;
    match operator {
        Operator::And | Operator::Or => other.to_truth().map(Value::Truth),
        Operator::Contains => Ok(Value::Truth(contains(one, other))),
        Operator::Join => Ok(join(one, other)),
        Operator::Plus => match (&one, &other) {
            (Value::Number(_), Value::Number(_)) => calculate(Operator::Add, &one, &other),
            _ => Ok(join(one, other)),
        },
        Operator::Add | Operator::Minus | Operator::Times | Operator::Over => {
            calculate(operator, &one, &other)
        }
        _ => compare(operator, &one, &other).map(Value::Truth),
    }
}

fn calculate<'v>(
    operator: Operator,
    one: &Value<'_>,
    other: &Value<'_>,
) -> Result<Value<'v>, String> {
    let (Some(one), Some(other)) = (one.to_number()?, other.to_number()?) else {
        return Ok(Value::Missing);
    };
    let result = match operator {
        Operator::Minus => one.minus(other),
        Operator::Times => one.times(other),
        Operator::Over if other.is_zero() => return Err(DIVIDED_BY_ZERO.to_owned()),
        Operator::Over => one.over(other),
        _ => one.plus(other),
    };
    Ok(Value::Number(result.ok_or(TOO_LARGE)?))
}

fn join<'v>(one: Value<'v>, other: Value<'v>) -> Value<'v> {
    match (one.into_text(), other.into_text()) {
        (Some(one), Some(other)) => Value::Text((one.into_owned() + &other).into()),
        _ => Value::Missing,
    }
}

fn contains(text: Value<'_>, part: Value<'_>) -> bool {
    match (text.into_text(), part.into_text()) {
        (Some(text), Some(part)) => text.contains(&*part),
        _ => false,
    }
}

/// A missing value differs from everything, and is neither less nor more.
fn compare(operator: Operator, one: &Value<'_>, other: &Value<'_>) -> Result<bool, String> {
    if *one == Value::Missing || *other == Value::Missing {
        return Ok(operator == Operator::Differ);
    }
    match operator {
        Operator::Equal => return equal(one, other),
        Operator::Differ => return equal(one, other).map(|equal| !equal),
        _ => {}
    }
    let order = match (one, other) {
        (Value::Text(one), Value::Text(other)) => match (one.parse::<Decimal>(), other.parse()) {
            (Ok(one), Ok(other)) => one.compare(other).ok_or(TOO_LARGE)?,
            _ => one.cmp(other),
        },
        _ => match (one.to_number()?, other.to_number()?) {
            (Some(one), Some(other)) => one.compare(other).ok_or(TOO_LARGE)?,
            _ => return Ok(false),
        },
    };
    Ok(match operator {
        Operator::Less => order == Ordering::Less,
        Operator::AtMost => order != Ordering::Greater,
        Operator::More => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })
}

/// A number equals every text that is that number.
fn equal(one: &Value<'_>, other: &Value<'_>) -> Result<bool, String> {
    Ok(match (one, other) {
        (Value::Number(number), Value::Text(text)) | (Value::Text(text), Value::Number(number)) => {
            text.parse() == Ok(*number)
        }
        (Value::Truth(truth), Value::Text(text)) | (Value::Text(text), Value::Truth(truth)) => {
            text == if *truth { "true" } else { "false" }
        }
        _ => one == other,
    })
}

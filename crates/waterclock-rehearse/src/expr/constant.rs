//! What can be worked out before a line is read: parts that name no field.

use super::eval::{DIVIDED_BY_ZERO, eval};
use super::function::Function;
use super::part::{Complaint, Operator, Part, What};
use super::{Row, Value};

/// Complains about parts that have no value in any line.
pub(super) fn check(part: &Part) -> Result<(), Complaint> {
    let known = value(part);
    if let Some(Ok(_)) = known {
        return Ok(());
    }
    // The innermost first: that is where the mistake is.
    part.parts().iter().try_for_each(check)?;
    match (&part.what, known) {
        (What::Pair(Operator::Over, parts), _) if is_zero(&parts[1]) => {
            Err(Complaint::new(parts[1].at, DIVIDED_BY_ZERO))
        }
        (_, Some(Err(sentence))) => Err(Complaint::new(part.at, sentence)),
        (What::Call(function @ (Function::Segments | Function::Net), parts), None) => {
            let Some((first, values)) = parts.get(1).zip(numbers(parts)) else { return Ok(()) };
            let complain = |sentence| Complaint::new(first.at, sentence);
            function.call(values).map(drop).map_err(complain)
        }
        _ => Ok(()),
    }
}

fn is_zero(part: &Part) -> bool {
    matches!(value(part), Some(Ok(Value::Number(number))) if number.is_zero())
}

/// The numbers that a function is called with in every line, behind a text that does not matter to them.
fn numbers(parts: &[Part]) -> Option<Vec<Value<'_>>> {
    let numbers = parts.iter().skip(1).map(|part| value(part)?.ok());
    std::iter::once(Some(Value::text(""))).chain(numbers).collect()
}

/// What a part is in every line, if no line has a say in it.
pub(super) fn value(part: &Part) -> Option<Result<Value<'_>, String>> {
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

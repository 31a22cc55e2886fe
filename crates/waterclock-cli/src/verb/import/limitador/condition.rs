//! Conditions and variables of Limitador: which entries of a descriptor a limit looks at.

use waterclock_config::Pattern;

/// The entries that a condition asks for; the error is the part of it that has no counterpart.
pub(super) fn entries(condition: &str) -> Result<Vec<(String, Pattern)>, String> {
    let parts = split_and(condition);
    parts.map(|part| comparison(part).ok_or_else(|| part.trim().to_owned())).collect()
}

/// The key of the entry that a variable names: `descriptors[0]['user_id']`, `descriptors[0].user_id` or `user_id`.
pub(super) fn variable(text: &str) -> Option<String> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix("descriptors[") else {
        return is_name(text).then(|| text.to_owned());
    };
    let (index, rest) = rest.split_once(']')?;
    index.trim().parse::<u32>().ok()?;
    if let Some(name) = rest.strip_prefix('.') {
        return is_name(name).then(|| name.to_owned());
    }
    let key = literal(rest.strip_prefix('[')?.strip_suffix(']')?)?;
    (!key.is_empty()).then_some(key)
}

/// `a == 'x' && b == 'y'`, in parts. An `&&` within quotes is none.
fn split_and(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut quote = None;
        for (at, letter) in text.char_indices() {
            match quote {
                Some(open) if letter == open => quote = None,
                None if letter == '\'' || letter == '"' => quote = Some(letter),
                None if text[at..].starts_with("&&") => {
                    rest = Some(&text[at + 2..]);
                    return Some(&text[..at]);
                }
                _ => {}
            }
        }
        rest = None;
        Some(text)
    })
}

/// `key == 'value'`, either way round, or `key.startsWith('prefix')`.
fn comparison(text: &str) -> Option<(String, Pattern)> {
    let text = text.trim();
    if let Some((key, prefix)) =
        text.strip_suffix(')').and_then(|text| text.split_once(".startsWith("))
    {
        return Some((variable(key)?, Pattern::Prefix(literal(prefix)?)));
    }
    let (left, right) = text.split_once("==")?;
    if let (Some(value), Some(key)) = (literal(left), variable(right)) {
        return Some((key, exact(value)?));
    }
    let key = variable(left)?;
    // Before quotes were needed, `key == value` was a comparison with a text.
    let is_old = || !left.contains('[') && is_name(right.trim());
    let value = literal(right).or_else(|| is_old().then(|| right.trim().to_owned()))?;
    Some((key, exact(value)?))
}

/// A rule reads a `*` at the end of a value as any rest.
fn exact(value: String) -> Option<Pattern> {
    (!value.ends_with('*')).then_some(Pattern::Exact(value))
}

/// A text in quotes, without any inside.
fn literal(text: &str) -> Option<String> {
    let text = text.trim();
    let quote = text.chars().next().filter(|first| "'\"".contains(*first))?;
    let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inside.contains([quote, '\\'])).then(|| inside.to_owned())
}

/// A key without quotes.
fn is_name(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_.-:".contains(letter);
    !text.is_empty() && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_maps() {
        let exact = |key: &str, value: &str| (key.to_owned(), Pattern::Exact(value.to_owned()));
        for (condition, expected) in [
            ("descriptors[0]['req.method'] == 'GET'", vec![exact("req.method", "GET")]),
            ("descriptors[1][\"a b\"]==\"c && d\"", vec![exact("a b", "c && d")]),
            ("'GET' == descriptors[0].method", vec![exact("method", "GET")]),
            ("req.method == \"GET\"", vec![exact("req.method", "GET")]),
            ("req.method == GET", vec![exact("req.method", "GET")]),
            ("a == '1' && b == '2'", vec![exact("a", "1"), exact("b", "2")]),
            ("p.startsWith('/x')", vec![("p".to_owned(), Pattern::Prefix("/x".to_owned()))]),
        ] {
            assert_eq!(entries(condition), Ok(expected), "{condition}");
        }
        assert_eq!(variable("descriptors[0]['user id']").as_deref(), Some("user id"));
        assert_eq!(variable(" descriptors[12].user ").as_deref(), Some("user"));
        assert_eq!(variable("user.id").as_deref(), Some("user.id"));
    }

    #[test]
    fn what_does_not() {
        for condition in [
            "method != 'GET'",
            "a == 'x' || b == 'y'",
            "!(a == 'x')",
            "a in ['x', 'y']",
            "a == 'it''s'",
            "a == '/files*'",
            "a == b == 'c'",
            "int(descriptors[0].n) > 3",
            "descriptors[0].n == m",
            "",
        ] {
            assert!(entries(condition).is_err(), "{condition}: {:?}", entries(condition));
        }
        assert_eq!(entries("a == 'x' && b != 'y'"), Err("b != 'y'".to_owned()));
        for text in ["descriptors[x].a", "descriptors[0]", "a[0]", "f(x)", "", "'a'"] {
            assert_eq!(variable(text), None, "{text}");
        }
    }
}

//! Expressions in a table, and random ones that must not panic.

use waterclock_core::Decimal;

use super::*;

struct Fields;

const FIELDS: [(&str, Kind); 8] = [
    ("path", Kind::Text),
    ("status", Kind::Number),
    ("size", Kind::Any),
    ("count", Kind::Any),
    ("user", Kind::Text),
    ("client_ip", Kind::Text),
    ("cached", Kind::Any),
    ("http.user-agent", Kind::Any),
];

impl Names for Fields {
    fn find(&mut self, name: &str) -> Result<(usize, Kind), String> {
        let place = FIELDS.iter().position(|(known, _)| *known == name);
        place.map(|place| (place, FIELDS[place].1)).ok_or_else(|| format!("no `{name}`"))
    }
}

impl Row for Fields {
    fn value(&self, place: usize) -> Value<'_> {
        match place {
            0 => Value::text("/api/v1/users/7"),
            1 => Value::Number(Decimal::from(503)),
            2 => Value::text("1.1"),
            3 => Value::text("20"),
            5 => Value::text("203.0.113.77"),
            6 => Value::Truth(true),
            7 => Value::text("Curl"),
            _ => Value::Missing,
        }
    }

    fn name(&self, place: usize) -> String {
        FIELDS[place].0.to_owned()
    }
}

fn worked_out(text: &str, wanted: Kind) -> Result<Option<String>, String> {
    let expression = Expression::parse("--x", text, &mut Fields, wanted)?;
    let value = expression.eval(&Fields)?;
    Ok(value.into_text().map(std::borrow::Cow::into_owned))
}

#[test]
fn values() {
    for (text, expected) in [
        ("path", "/api/v1/users/7"),
        ("segments(path, 2)", "/api/v1"),
        ("segments(path, 9)", "/api/v1/users/7"),
        ("segments(\"/\", 1) + segments(\"a/b\", 1)", "/a"),
        ("segments(path, 2) + ' ' + client_ip", "/api/v1 203.0.113.77"),
        ("net(client_ip)", "203.0.113.77"),
        ("net(client_ip, 24)", "203.0.113.0/24"),
        ("net(client_ip, 0)", "0.0.0.0/0"),
        ("net('2001:DB8:1:2:3::4', 24)", "2001:db8:1:2::/64"),
        ("net('2001:db8:1:2:3::4', 24, 32)", "2001:db8::/32"),
        ("net('::ffff:1.2.3.4')", "1.2.3.4"),
        ("net('not an address', 8)", "not an address"),
        ("lower(field('http.user-agent'))", "curl"),
        ("or_else(user, client_ip)", "203.0.113.77"),
        ("or_else(user + \"x\", \"nobody\")", "nobody"),
        ("status + path", "503/api/v1/users/7"),
        ("status + 1", "504"),
        ("size + count", "1.120"),
        // A number beside it makes it add, wherever that stands.
        ("count + 1", "21"),
        ("1 + count", "21"),
        ("count + 1 + 2", "23"),
        ("count + status", "523"),
        ("count + 1 + 'x'", "21x"),
        ("text(count) + 1", "201"),
        ("count + size + ''", "201.1"),
        ("size * 10", "11"),
        ("count - 1 * 2 - 3", "15"),
        ("(count - 1) * -2", "-38"),
        ("- - 2", "2"),
        ("7 / 2 + .5", ""),
        ("if status >= 500 then \"bad\" else \"good\"", "bad"),
        ("if user == \"x\" then 1 else if cached then 2 else 3", "2"),
        ("\"a\\\"b\\\\\"", "a\"b\\"),
        ("text(status) + status", "503503"),
        ("number(size) + number(count)", "21.1"),
    ] {
        if expected.is_empty() {
            assert!(worked_out(text, Kind::Text).is_err(), "{text}");
        } else {
            assert_eq!(worked_out(text, Kind::Text), Ok(Some(expected.to_owned())), "{text}");
        }
    }
    // What is wanted decides what `+` does with columns that may be anything.
    assert_eq!(worked_out("size + count", Kind::Number), Ok(Some("21.1".to_owned())));
    assert_eq!(worked_out("user", Kind::Text), Ok(None));
    assert_eq!(worked_out("user + \"x\"", Kind::Text), Ok(None));
}

#[test]
fn conditions() {
    for (text, expected) in [
        ("status == 503 and not user == 'x'", true),
        ("status == '503'", true),
        ("status < 500 or path ~ '/users/'", true),
        ("user != 'x'", true),
        ("user == 'x'", false),
        ("user ~ ''", false),
        ("user < 'x' or user >= 'x'", false),
        ("count > 3", true),
        ("count > '3'", true),
        ("path > '/api'", true),
        ("size + count > 21", true),
        ("size <= 1.10 and size >= 1.1", true),
        ("cached", true),
        ("cached == 'true'", true),
        ("not cached or false", false),
        ("false and 1 / 0 == 1", false),
        ("true or true and false", true),
        ("1 + 2 * 3 == 7", true),
    ] {
        assert_eq!(worked_out(text, Kind::Truth), Ok(Some(expected.to_string())), "{text}");
    }
}

#[test]
fn mistakes_have_a_place() {
    for (text, wanted, expected) in [
        (
            "",
            Kind::Text,
            "--x:1:1: expected a field, a number, a text in quotes or `(`; found the end",
        ),
        ("pth", Kind::Text, "--x:1:1: no `pth`"),
        (
            "path +",
            Kind::Text,
            "--x:1:7: expected a field, a number, a text in quotes or `(`; found the end",
        ),
        (
            "path path",
            Kind::Text,
            "--x:1:6: expected an operator such as `+` or the end; found `path`",
        ),
        ("(path", Kind::Text, "--x:1:6: expected `)`; found the end"),
        ("é", Kind::Text, "--x:1:1: no `é`"),
        ("'é' $", Kind::Text, "--x:1:5: `$` is not an operator"),
        ("path &&\n path", Kind::Text, "--x:1:6: `&&` is not an operator; write `and`"),
        ("path +\n  pth", Kind::Text, "--x:2:3: no `pth`"),
        ("status = 3", Kind::Truth, "--x:1:8: `=` is not an operator; write `==`"),
        (
            "lowr(path)",
            Kind::Text,
            "--x:1:1: unknown function `lowr`; did you mean `lower`?; the functions are field, segments, lower, net, or_else, number, text",
        ),
        ("lower()", Kind::Text, "--x:1:1: write lower(agent)"),
        ("segments(path)", Kind::Text, "--x:1:1: write segments(path, 2)"),
        (
            "1 < 2 < 3",
            Kind::Truth,
            "--x:1:7: expected `and` or `or` between two comparisons; found `<`",
        ),
        ("1.2.3", Kind::Number, "--x:1:1: `1.2.3` is not a number such as 1500 or 0.25"),
        ("\"abc", Kind::Text, "--x:1:1: this text has no end; close it with \""),
        ("\"\\q\"", Kind::Text, "--x:1:2: after a backslash come `\"`, `'`, `\\`, `t` or `n`"),
        (
            "path",
            Kind::Number,
            "--x:1:1: expected a number; this is text; number(…) reads a number from text",
        ),
        (
            "2 * path",
            Kind::Number,
            "--x:1:5: expected a number; this is text; number(…) reads a number from text",
        ),
        (
            "status",
            Kind::Truth,
            "--x:1:1: expected a condition such as status >= 400; this is a number",
        ),
        (
            "if 1 then 2 else 3",
            Kind::Number,
            "--x:1:4: expected a condition such as status >= 400; this is a number",
        ),
        ("if true then 2", Kind::Number, "--x:1:15: expected `else`; found the end"),
        (
            "field(path)",
            Kind::Text,
            "--x:1:7: expected the name of a field in quotes; found `path`",
        ),
    ] {
        assert_eq!(worked_out(text, wanted).unwrap_err(), expected, "{text}");
    }
    let long = "1+".repeat(5_000) + "1";
    assert!(worked_out(&long, Kind::Number).unwrap_err().contains("at most 200"));
    let deep = "(".repeat(150) + "1" + &")".repeat(40);
    assert!(worked_out(&deep, Kind::Number).is_err());
}

#[test]
fn trouble_with_a_line() {
    for (text, expected) in [
        ("1 / (status - 503)", "a number is divided by zero"),
        ("number(path)", "\"/api/v1/users/7\" is not a number"),
        ("cached * 2", "true is not a number"),
        ("segments(path, status)", "503 is not from 0 to 255"),
    ] {
        assert_eq!(worked_out(text, Kind::Text).unwrap_err(), expected, "{text}");
    }
}

/// Mistakes that every line would have are found before the first, with their place.
#[test]
fn trouble_with_every_line() {
    let too_large = "99999999999999999999 * 99999999999999999999";
    for (text, expected) in [
        ("1 / 0", "--x:1:5: a number is divided by zero"),
        ("status / 0", "--x:1:10: a number is divided by zero"),
        ("if user == 'x' then size / (2 - 2) else 1", "--x:1:29: a number is divided by zero"),
        ("or_else(user, number('x'))", "--x:1:15: \"x\" is not a number"),
        (
            "net(client_ip, 33)",
            "--x:1:16: a network has 0 to 32 bits, or 1 to 128 of IPv6; found 33 and 64",
        ),
        ("segments(path, 1000)", "--x:1:16: 1000 is not from 0 to 255"),
        (too_large, "--x:1:1: a number is too large to work with"),
    ] {
        assert_eq!(worked_out(text, Kind::Text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn nothing_panics() {
    let mut rng = fastrand::Rng::with_seed(2);
    let pieces = [
        "path",
        "status",
        "size",
        "user",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "==",
        "<",
        "~",
        "and",
        "or",
        "not",
        "if",
        "then",
        "else",
        "1",
        "0",
        "2.5",
        "\"x\"",
        "'",
        "segments(",
        "net(",
        "lower(",
        "é",
        ".",
        "or_else(",
        "@",
        "\\",
        "true",
        "cached",
    ];
    let kinds = [Kind::Text, Kind::Number, Kind::Truth, Kind::Any];
    let mut worked = 0;
    for _ in 0..100_000 {
        let length = rng.usize(0..9);
        let words: Vec<&str> = (0..length).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
        worked += u32::from(worked_out(&words.join(" "), kinds[rng.usize(0..4)]).is_ok());
    }
    assert!(worked > 100, "{worked}");
}

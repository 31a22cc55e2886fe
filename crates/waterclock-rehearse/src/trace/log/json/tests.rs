//! Paths through objects, and what is none.

use std::borrow::Cow;

use super::*;

fn values(paths: &[&str], line: &str) -> Result<Vec<Option<String>>, String> {
    let mut json = Json::new(String::new());
    paths.iter().for_each(|path| drop(json.find(path)));
    let found = json.parse(line)?;
    Ok((0..paths.len()).map(|place| found.value(place).into_text().map(Cow::into_owned)).collect())
}

#[test]
fn paths() {
    let line = r#"{"a":1,"user":{"id":"x\ty","b":[10,{"c":true},null]},"flat.name":2.50,"user.z":"w","n":null,"big":36893488147419103233}"#;
    let paths = [
        "a",
        "user.id",
        "user.b.0",
        "user.b.1.c",
        "flat.name",
        "user.z",
        "n",
        "user",
        "user.b.2",
        "big",
    ];
    let found = values(&paths, line).unwrap();
    let expected = ["1", "x\ty", "10", "true", "2.5", "w"];
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.as_deref(), Some(expected));
    }
    assert_eq!(found[6..9], [None, None, None]);
    assert_eq!(found[9].as_deref(), Some("36893488147419103233"));
}

#[test]
fn what_is_no_object() {
    for line in ["", "[]", "1", "{", r#"{"a":}"#, r#"{"a":1} x"#, "nonsense"] {
        assert!(values(&["a"], line).is_err(), "{line}");
    }
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(values(&["a.0.0"], &deep), Ok(vec![None]));
    let path = "a".to_owned() + &".0".repeat(1_000);
    assert!(values(&[&path], &deep).is_err());
    assert_eq!(values(&["a"], "{}"), Ok(vec![None]));
    // A field and what is below it.
    for (line, expected) in [
        (r#"{"a":7}"#, [Some("7"), None]),
        (r#"{"a":{"b":"x"}}"#, [None, Some("x")]),
        (r#"{"a":{"b":{"c":1}}}"#, [None, None]),
    ] {
        let expected = expected.map(|text| text.map(str::to_owned));
        assert_eq!(values(&["a", "a.b"], line), Ok(expected.into()), "{line}");
    }
    let complaint = values(&["a"], r#"{"b":1,"a":"\ud800"}"#).unwrap_err();
    assert!(complaint.ends_with("hex escape at column 20"), "{complaint}");
    let long = values(&["a"], &format!("\"{}\"", "\\u001b".repeat(1_000))).unwrap_err();
    assert!(long.len() < 200, "{long}");
}

#[test]
fn nothing_panics() {
    let mut rng = fastrand::Rng::with_seed(4);
    let pieces = [
        "{", "}", "[", "]", "\"a\"", ":", ",", "1", "-", ".5", "null", "\"\\u00", "é", "\"b\":",
        "true",
    ];
    for _ in 0..30_000 {
        let length = rng.usize(0..12);
        let line: String = (0..length).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
        let _ = values(&["a", "a.b", "a.0", "b"], &format!("{{\"a\":{line}"));
    }
}

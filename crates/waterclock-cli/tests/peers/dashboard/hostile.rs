//! Keys that want to be more than text.

use serde_json::{Value, json};
use waterclock_conformance::real::await_that;

use super::Scene;
use super::traffic::{check_by_http, check_by_resp};

fn keys() -> Vec<String> {
    let long = "very-long-".repeat(100);
    [
        "<img src=x onerror=\"window.pwned=1\">",
        "<script>window.pwned=1</script>",
        "'\"><svg onload=window.pwned=1>",
        "javascript:window.pwned=1",
        "${window.pwned=1}{{window.pwned=1}}",
        "\u{202e}evil.right-to-left\u{2066}",
        "مرحبا",
        "👩‍👩‍👧‍👦 é e\u{301}",
        "a\u{0}b\nc\td",
        "__proto__",
        "</td></tr></table>&lt;b&gt;",
        &long,
    ]
    .map(str::to_owned)
    .into()
}

/// What is no text cannot be typed, and its text is another key.
#[test]
fn keys_that_cannot_be_typed_have_no_button() {
    let scene = Scene::with("[server]\nshow_keys = true\n", Vec::new()).live();
    let browser = &scene.browser;
    for _ in 0..7 {
        check_by_resp(scene.server.resp, "login", b"9:127.0.0.1,3:\xff\xff\xff,");
        check_by_resp(scene.server.resp, "login", b"9:127.0.0.1,3:bob,");
        check_by_resp(scene.server.resp, "slow", b"caf\xe9");
        check_by_resp(scene.server.resp, "slow", b"two\nlines");
    }
    let with = |tag: &str| {
        let script = "return [...document.querySelectorAll(`#refused ${arguments[0]}`)].map((key) => key.textContent).sort()";
        browser.run(script, &[Value::from(tag)])
    };
    await_that("all of them are shown", || {
        with(".key").as_array().is_some_and(|all| all.len() == 4)
    });
    let odd = [r"9:127.0.0.1,3:\xff\xff\xff,", r"caf\xe9", "two\nlines"];
    await_that("the one that is text is a button", || {
        with("button") == json!(["client_ip: 127.0.0.1user: bob"])
    });
    assert_eq!(with("code"), json!(odd));
    browser.click("#refused button");
    let typed =
        "return [...document.querySelectorAll('#key-fields input')].map((input) => input.value)";
    assert_eq!(browser.run(typed, &[]), json!(["127.0.0.1", "bob"]));

    let values =
        "return import('/dashboard/subject.js').then(({ valuesOf }) => valuesOf(...arguments))";
    let values = |policy: &str, key: &str| browser.run(values, &[policy.into(), key.into()]);
    assert_eq!(values("login", "4:é:,,1:b,"), json!(["é:,", "b"]));
    assert_eq!(values("slow", "1:a,"), json!(["1:a,"]));
    for key in [
        "3:\u{fffd}\u{fffd}\u{fffd},1:a,",
        "",
        ":,:,",
        "1:a,",
        "1:a,1:b,1:c,",
        "1:a,1:b",
        "-1:a,1:b,",
    ] {
        assert_eq!(values("login", key), Value::Null, "{key}");
    }
    assert_eq!(values("gone", "k"), Value::Null);
    scene.ends_well();
}

#[test]
fn hostile_keys_are_text() {
    let scene = Scene::with("[server]\nshow_keys = true\n", Vec::new()).live();
    let browser = &scene.browser;
    let keys = keys();
    for key in &keys {
        while check_by_http(scene.server.http, "slow", key) == 200 {}
    }
    let shown = || {
        let texts = "return [...document.querySelectorAll('#refused .key bdi')].map((key) => key.textContent)";
        let shown = browser.run(texts, &[]);
        shown.as_array().cloned().unwrap_or_default()
    };
    await_that("all of them are shown", || shown().len() >= keys.len());
    for key in &keys {
        assert!(shown().iter().any(|shown| shown == key), "{key:?} in {:?}", shown());
    }
    let elements = "return document.querySelectorAll('#refused :not(tr, td, a, span, button, code, bdi)').length";
    assert_eq!(browser.run(elements, &[]), 0, "nothing became an element");

    // Through the playground as well, and what it says about each of them.
    for key in keys.iter().filter(|key| !key.contains(['\u{0}', '\n'])) {
        let click = "[...document.querySelectorAll('#refused .key button')] \
            .find((button) => button.textContent === arguments[0]).click()";
        browser.run(click, &[Value::from(&**key)]);
        let input = "return document.querySelector('#key-fields input').value";
        assert_eq!(browser.run(input, &[]), **key);
        scene.check();
        let said = "return document.querySelector('#log li bdi').textContent";
        assert_eq!(browser.run(said, &[]), **key);
        let curl = browser.text("#curl");
        assert!(curl.contains("/v1/check"), "{curl}");
    }
    assert_eq!(browser.run("return typeof window.pwned", &[]), "undefined", "nothing was executed");
    let width = "return document.documentElement.scrollWidth <= innerWidth";
    assert_eq!(browser.run(width, &[]), true, "no key is wider than the page");
    let fences = "return [...document.querySelectorAll('#refused bdi')].every((key) => getComputedStyle(key).unicodeBidi === 'isolate')";
    assert_eq!(browser.run(fences, &[]), true, "no key turns its neighbours around");
    scene.ends_well();
}

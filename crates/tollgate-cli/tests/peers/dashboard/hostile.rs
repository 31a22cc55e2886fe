//! Keys that want to be more than text.

use serde_json::Value;
use tollgate_conformance::real::await_that;

use super::Scene;
use super::traffic::check_by_http;

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
    let elements = "return document.querySelectorAll('#refused :not(tr, td, button, bdi)').length";
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

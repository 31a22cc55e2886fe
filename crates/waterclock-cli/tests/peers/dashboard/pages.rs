//! The page of a policy, charts by pointer and keyboard, and what a reload of the page keeps.

use serde_json::{Value, json};
use waterclock_conformance::real::await_that;

use super::Scene;
use super::traffic::check_by_http;

impl Scene {
    /// The largest number of allowed decisions in one point of the overview's chart, read as a person does: by pointing.
    fn most_by_hover(&self, chart: &str) -> Vec<String> {
        let script = "const plot = document.querySelector(`${arguments[0]} .plot`); \
            const { left, width, top } = plot.getBoundingClientRect(); \
            const told = new Set(); \
            for (let x = 0; x <= 200; x += 1) { \
                plot.dispatchEvent(new PointerEvent('pointermove', { clientX: left + (width * x) / 200, clientY: top + 5 })); \
                const tip = plot.querySelector('.tip'); \
                if (!tip.hidden) told.add([...tip.querySelectorAll('span')].map((line) => line.textContent).join(', ')); \
            } \
            plot.dispatchEvent(new PointerEvent('pointerleave')); \
            return [...told]";
        let told = self.browser.run(script, &[chart.into()]);
        let texts = told.as_array().cloned().unwrap_or_default();
        texts.iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
    }

    fn go(&self, hash: &str) {
        self.browser.run("location.hash = arguments[0]", &[hash.into()]);
    }
}

/// A page that is opened later, or again, shows what happened before.
#[test]
fn a_reload_loses_nothing() {
    let scene = Scene::new().live();
    let (browser, http) = (&scene.browser, scene.server.http);
    browser.await_text("#first", "Send your first request");
    let curl = browser.text("#first-curl");
    assert!(
        curl.starts_with("curl -i 'http://127.0.0.1:") && curl.contains("\"policy\""),
        "{curl}"
    );
    for _ in 0..40 {
        check_by_http(http, "slow", "k");
    }
    let has_refusals =
        || scene.most_by_hover("#chart").iter().any(|tip| !tip.ends_with("Refused/s 0"));
    await_that("they are in the chart", has_refusals);
    await_that("the first request was sent", || !browser.is_shown("#first"));
    // Long enough for the server to have sampled them.
    std::thread::sleep(std::time::Duration::from_secs(3));
    browser.run("location.reload()", &[]);
    browser.await_text("#connection", "Live");
    browser.await_text("#policy", "slow");
    await_that("they are there again", has_refusals);
    let row = "return [...document.querySelectorAll('#policies tr')].find((row) => row.innerText.startsWith('slow')).innerText";
    await_that("with their share", || browser.run(row, &[]).to_string().contains(" %"));
    let sparks = "return [...document.querySelectorAll('#policies .spark path')].map((path) => path.getAttribute('class'))";
    await_that("and in the small chart", || {
        browser.run(sparks, &[]).to_string().contains("c-deny")
    });
    // The other ranges come from the server, too.
    browser.click("[data-range=\"1h\"]");
    browser.await_text("#policies-span", "the last 1 h");
    browser.await_text("#chart figcaption", "1 h ago");
    scene.ends_well();
}

#[test]
fn charts_can_be_read_with_a_keyboard() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    while check_by_http(scene.server.http, "slow", "k") == 200 {}
    await_that("a few points", || scene.most_by_hover("#chart").len() > 1);
    browser.run("document.querySelector('#chart .plot').focus()", &[]);
    let value = || {
        browser.run(
            "return document.querySelector('#chart .plot').getAttribute('aria-valuetext')",
            &[],
        )
    };
    let tip = || browser.run("return document.querySelector('#chart .tip').hidden", &[]);
    assert_eq!(tip(), true);
    browser.press(&["\u{e012}"]);
    assert_eq!(tip(), false, "an arrow shows a point");
    assert!(value().to_string().contains("Allowed/s"), "{}", value());
    browser.press(&["\u{e011}"]);
    let first = browser
        .run("return document.querySelector('#chart .plot').getAttribute('aria-valuenow')", &[]);
    assert_eq!(first, "0", "Home is the oldest");
    browser.press(&["\u{e00c}"]);
    assert_eq!(tip(), true, "Escape hides it");
    let grid = "return document.querySelectorAll('#chart .grid').length";
    assert_eq!(browser.run(grid, &[]), 3);
    scene.ends_well();
}

#[test]
fn a_policy_has_a_page() {
    let scene = Scene::with("[server]\nshow_keys = true\n", Vec::new()).live();
    let (browser, http) = (&scene.browser, scene.server.http);
    for _ in 0..12 {
        check_by_http(http, "slow", "greedy");
    }
    browser.click("#policies a[href='#/policies/slow']");
    browser.await_text("#policy-name", "slow");
    assert!(!browser.is_shown(".now"), "the overview is hidden");
    browser.await_text("#policy-limits", "burst: 1/4 s, capacity 5");
    browser.await_text("#policy-refused", "greedy");
    browser.await_text("#policy-refused", "7");
    browser.await_text("#policy-share", "%");
    let share = || scene.most_by_hover("#policy-share-chart");
    await_that("its refused share", || share().iter().any(|tip| tip.contains("Refused 5")));
    let latency = || scene.most_by_hover("#policy-latency-chart");
    await_that("latency", || latency().iter().any(|tip| tip.contains("µs") || tip.contains("ms")));
    assert!(browser.text("#policy-latency-of").contains("http, all policies"));
    assert_eq!(browser.run("return document.getElementById('policy').value", &[]), "slow");
    // A link within the page leaves it where it is, and back is back.
    browser.run("document.querySelector('.skip').click()", &[]);
    assert_eq!(browser.text("#policy-name"), "slow");
    scene.go("#/policies/watched");
    browser.await_text("#policy-badges", "shadow");
    scene.go("#/policies/login");
    browser.await_text("#policy-limits", "3/h");
    scene.go("#/policies/gone");
    browser.await_text("#policy-limits", "No policy of this name");
    browser.click("#back");
    browser.await_text("#now-title", "Decisions per second");
    scene.ends_well();
}

/// Overrides and blocks, whatever their keys are made of.
#[test]
fn overrides_are_listed_and_searched() {
    let auth = "[server]\nauth = [{ token = \"${ADMIN}\", roles = [\"admin\"] }]\n";
    let scene = Scene::with(auth, vec![("ADMIN".to_owned(), "open-sesame".to_owned())]);
    let browser = &scene.browser;
    browser.await_text("#sign-in-error", "needs a token");
    browser.fill("#token", "open-sesame");
    browser.click("#token-form button.primary");
    browser.await_text("#policy", "rare");
    let evil = "<img src=x onerror=window.pwned=1>";
    let load = "return fetch('/v1/policies/rare/overrides', { method: 'POST', headers: { authorization: 'Bearer open-sesame' }, \
        body: arguments[0].map((line) => JSON.stringify(line)).join('\\n') }).then(({ status }) => status)";
    let mut lines: Vec<Value> =
        (0..60).map(|number| json!({ "key": format!("user-{number}"), "factor": "0.5" })).collect();
    lines.push(json!({ "key": evil, "block": true }));
    lines.push(json!({ "key": "\u{202e}</ul><script>window.pwned=1</script>", "limits": ["7/h"] }));
    assert_eq!(browser.run(load, &[lines.into()]), 200);
    scene.go("#/policies/rare");
    browser.await_text("#policy-overrides", "mallory blocked by the configuration");
    browser.await_text("#policy-overrides-note", "50 of 63 shown");
    browser.fill("#override-search", "onerror");
    browser.await_text("#policy-overrides-note", "1 of 63.");
    assert_eq!(browser.text("#policy-overrides"), format!("{evil} blocked"));
    browser.fill("#override-search", "7/h");
    browser.await_text("#policy-overrides", "</ul><script>");
    browser.fill("#override-search", "nothing like that");
    browser.await_text("#policy-overrides-note", "None matches.");
    assert_eq!(browser.run("return typeof window.pwned", &[]), "undefined", "nothing was executed");
    let odd = "return document.querySelectorAll('#policy-overrides img, #policy-overrides script').length";
    assert_eq!(browser.run(odd, &[]), 0);
    scene.ends_well();
}

#[test]
fn a_policy_page_fits_a_phone_and_the_dark() {
    let scene = Scene::with("[server]\nshow_keys = true\n", Vec::new()).live();
    let browser = &scene.browser;
    for _ in 0..8 {
        check_by_http(scene.server.http, "slow", &"long-key-".repeat(30));
    }
    scene.go("#/policies/slow");
    browser.await_text("#policy-refused", "long-key-");
    let size = json!({ "width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": true });
    browser.chromium("Emulation.setDeviceMetricsOverride", &size);
    let widths = || browser.run("return [document.documentElement.scrollWidth, innerWidth]", &[]);
    await_that("it is narrow", || widths() == json!([400, 400]));
    for scheme in ["light", "dark"] {
        browser.prefer("prefers-color-scheme", scheme);
        assert_eq!(browser.run(super::looks::FAINT_TEXTS, &[]), json!([]), "{scheme}");
    }
    scene.ends_well();
}

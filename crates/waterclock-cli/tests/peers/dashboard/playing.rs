//! The playground, with a mouse and without.

use waterclock_conformance::real::await_that;

use super::Scene;
use crate::browser::{DOWN, ENTER, SPACE, TAB};

impl Scene {
    /// What the first limit has left, as the bar says it.
    fn level(&self) -> f64 {
        self.attribute("aria-valuenow")
    }

    fn attribute(&self, name: &str) -> f64 {
        let script = "return Number(document.querySelector('#levels [role=meter]')?.getAttribute(arguments[0]) ?? -1)";
        self.browser.run(script, &[name.into()]).as_f64().unwrap_or(-1.0)
    }

    /// How far the first bar is filled, from 0 to 1.
    fn filled(&self) -> f64 {
        let script = "const bar = document.querySelector('#levels [role=meter]'); \
            return bar.firstChild.getBoundingClientRect().width / bar.getBoundingClientRect().width";
        self.browser.run(script, &[]).as_f64().unwrap_or(-1.0)
    }
}

#[test]
fn a_burst_drains_and_time_refills() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    scene.about("slow", "alice");
    assert_eq!(scene.check(), "Allowed, 4 left.");
    assert_eq!((scene.level(), scene.attribute("aria-valuemax")), (4.0, 5.0));
    browser.click("[value=burst]");
    browser.click("#fire");
    browser.await_text("#verdict", "refused.");
    // Five at once, and one more for every four seconds that passed meanwhile.
    let refused = browser.run("return document.querySelectorAll('#log .no').length", &[]);
    assert!(refused.as_u64() >= Some(4), "{}", browser.text("#log"));
    assert!(
        browser.text("#log").contains("✕ refused by burst, 0 left, retry in"),
        "{}",
        browser.text("#log")
    );
    assert!(scene.level() <= 1.0, "drained");
    let filled = scene.filled();
    await_that("the bar moves before a unit has come", || scene.filled() > filled);
    await_that("units come back", || scene.level() >= 2.0);
    browser.await_text("#levels", "of 5, next in");
    browser.click("#answer-details summary");
    browser.await_text("#answer", "status: 429");
    browser.await_text("#answer", "ratelimit: \"slow.burst\";r=0;");
    scene.ends_well();
}

/// A policy that counts several units is asked for each of them.
#[test]
fn units_are_named() {
    let scene = Scene::new().live();
    scene.about("usage", "alice");
    assert_eq!(scene.check(), "Allowed, 4 left.");
    scene.browser.fill("#cost", "tokens=800");
    assert!(scene.browser.text("#curl").contains(r#""cost":{"tokens":800}"#));
    assert_eq!(scene.check(), "Allowed, 3 left.");
    scene.browser.click("#fire");
    scene.browser.await_text("#log", "✕ refused by tokens");
    scene.browser.fill("#cost", "3");
    scene.browser.click("#fire");
    scene.browser.await_text("#verdict", "name them in the cost");
    scene.ends_well();
}

#[test]
fn the_command_for_it_is_shown_and_can_be_pasted() {
    let scene = Scene::new().live();
    let url = format!("http://127.0.0.1:{}/v1/check", scene.server.http);
    scene.about("slow", "it's $HOME \"q\"");
    scene.browser.fill("#cost", "2");
    let expected =
        format!(r#"curl -i '{url}' -d '{{"policy":"slow","key":"it'\''s $HOME \"q\"","cost":2}}'"#);
    assert_eq!(scene.browser.text("#curl"), expected);
    scene.browser.choose("#policy", "login");
    scene.browser.fill("[name=user]", "bob");
    let expected = format!(
        r#"curl -i '{url}' -d '{{"policy":"login","fields":{{"client_ip":"127.0.0.1","user":"bob"}},"cost":2}}'"#
    );
    assert_eq!(scene.browser.text("#curl"), expected);
    assert_eq!(scene.check(), "Allowed, 1 left.");
    scene.ends_well();
}

#[test]
fn a_run_goes_on_until_it_is_stopped() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    scene.about("open", "alice");
    browser.fill("#every", "50");
    assert_eq!(browser.run("return document.querySelector('[value=every]').checked", &[]), true);
    browser.click("#fire");
    await_that("some checks", || {
        browser.run("return document.querySelectorAll('#log .yes').length", &[]).as_u64() >= Some(5)
    });
    browser.click("#stop");
    browser.await_text("#verdict", "allowed, 0 refused.");
    let fired = browser.number("#verdict");
    let total = || {
        let live = scene.server.get("/v1/live").body;
        let live: serde_json::Value = serde_json::from_str(&live).expect("the feed is JSON");
        live["totals"]["allowed"].as_f64().expect("a number")
    };
    assert_eq!(total(), fired, "none after that");
    scene.ends_well();
}

/// Limits without units either allow or refuse.
#[test]
fn limits_without_units_pass_or_refuse() {
    let scene = Scene::new().live();
    scene.about("spaced", "alice");
    assert!(scene.check().starts_with("Allowed"));
    scene.browser.await_text("#levels", "refuses for 1 h");
    assert_eq!(scene.level(), 0.0);
    let said = scene.administer("inspect");
    assert!(said.starts_with("Inspected alice. It has 0 left, full again in"), "{said}");

    scene.about("trips", "alice");
    assert!(scene.check().starts_with("Allowed"));
    scene.browser.await_text("#levels", "allows");
    let report = "return fetch('/v1/report', { method: 'POST', \
        body: JSON.stringify({ policy: 'trips', key: 'alice', outcome: 'error' }) }).then(({ status }) => status)";
    assert_eq!(scene.browser.run(report, &[]), 200);
    assert!(scene.check().starts_with("Refused"));
    scene.browser.await_text("#levels", "refuses for 1 h");
    scene.ends_well();
}

/// Errors of the server are shown unchanged.
#[test]
fn errors_are_shown() {
    let scene = Scene::new().live();
    scene.about("slow", &"k".repeat(1_025));
    assert_eq!(scene.check(), "a key must be at most 1024 bytes long; found 1025.");
    scene.ends_well();
}

#[test]
fn everything_can_be_done_with_a_keyboard() {
    let scene = Scene::new().live();
    let browser = &scene.browser;
    browser.press(&[TAB]);
    assert_eq!(browser.focused(), "Skip to the playground");
    browser.press(&[ENTER]);
    assert_eq!(browser.focused(), "playground");
    browser.press(&[TAB]);
    assert_eq!(browser.focused(), "policy");
    assert_eq!(browser.run("return document.getElementById('policy').value", &[]), "login");
    browser.press(&[DOWN, DOWN, DOWN]);
    assert_eq!(browser.run("return document.getElementById('policy').value", &[]), "slow");
    browser.press(&[TAB]);
    assert_eq!(browser.focused(), "key");
    browser.press(&["x", "y", TAB]);
    assert_eq!(browser.focused(), "cost");
    browser.press(&[TAB, DOWN]);
    assert_eq!(browser.run("return document.activeElement.value", &[]), "burst");
    let outline = "return getComputedStyle(document.activeElement).outlineWidth";
    assert_eq!(browser.run(outline, &[]), "3px", "the focus can be seen");
    browser.press(&[TAB]);
    assert_eq!(browser.focused(), "burst");
    browser.press_shift_tab();
    browser.press(&[TAB, TAB, TAB]);
    assert_eq!(browser.focused(), "fire");
    browser.press(&[SPACE]);
    browser.await_text("#verdict", "refused.");
    assert_eq!(browser.focused(), "fire", "and the focus stays");
    let log = browser.text("#log");
    assert!(log.contains("\nxy"), "what was typed was asked about: {log}");
    scene.ends_well();
}

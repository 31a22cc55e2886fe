//! Light and dark, wide and narrow, seen and heard.

use serde_json::{Value, json};
use waterclock_conformance::real::await_that;

use super::Scene;
use super::traffic::check_by_http;

/// Every text in the page whose contrast with what is behind it is below 4.5, with that number.
pub(crate) const FAINT_TEXTS: &str = r"
const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
const light = (colour) => {
  const [r, g, b] = numbers(colour).slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if ((numbers(colour)[3] ?? 1) > 0) return colour;
  }
  return 'rgb(255, 255, 255)';
};
const faint = [];
for (const element of document.body.querySelectorAll('*')) {
  const isText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!isText || !element.getClientRects().length) continue;
  const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) faint.push(`${element.tagName} ${element.textContent.slice(0, 30)}: ${contrast.toFixed(2)}`);
}
return faint;
";

impl Scene {
    /// With something in every part of the page.
    fn busy() -> Self {
        let scene = Self::new().live();
        while check_by_http(scene.server.http, "slow", "k") == 200 {}
        scene.about("slow", "k");
        scene.check();
        scene.administer("inspect");
        scene.browser.await_text("#refused-table", "slow");
        scene
    }
}

#[test]
fn light_and_dark_can_be_read() {
    let scene = Scene::busy();
    let browser = &scene.browser;
    let ground = || browser.run("return getComputedStyle(document.body).backgroundColor", &[]);
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer("prefers-color-scheme", scheme);
        assert_eq!(browser.run(FAINT_TEXTS, &[]), json!([]), "{scheme}");
        grounds.push(ground());
    }
    assert_ne!(grounds[0], grounds[1]);
    scene.ends_well();
}

#[test]
fn a_narrow_screen_is_enough() {
    let scene = Scene::busy();
    scene.about("vast", &"k".repeat(100));
    scene.check();
    scene.browser.await_text("#levels", "999,998 of 999,999, next in 300 d");
    let size = json!({ "width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": true });
    scene.browser.chromium("Emulation.setDeviceMetricsOverride", &size);
    let widths =
        || scene.browser.run("return [document.documentElement.scrollWidth, innerWidth]", &[]);
    await_that("it is narrow", || widths() == json!([360, 360]));
    scene.ends_well();
}

/// What a policy allows and refuses is seen without scrolling.
#[test]
fn the_table_of_policies_fits_a_telephone() {
    let scene = Scene::busy();
    let size = json!({ "width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": true });
    scene.browser.chromium("Emulation.setDeviceMetricsOverride", &size);
    let right = "const head = [...document.querySelectorAll('th')].find((th) => th.textContent === arguments[0]); \
        return head.getBoundingClientRect().right";
    let rights = || {
        ["Allowed/s", "Refused/s"]
            .map(|head| scene.browser.run(right, &[json!(head)]).as_f64().unwrap_or(f64::MAX))
    };
    await_that("both are on the screen", || rights().iter().all(|right| *right <= 388.0));
    scene.ends_well();
}

/// What a dark screen shows can be read on paper, where nothing can be pressed.
#[test]
fn paper() {
    let scene = Scene::busy();
    let browser = &scene.browser;
    let features = json!([{ "name": "prefers-color-scheme", "value": "dark" }]);
    let print = json!({ "media": "print", "features": features });
    browser.chromium("Emulation.setEmulatedMedia", &print);
    assert_eq!(browser.run(FAINT_TEXTS, &[]), json!([]));
    let ground = "return [document.body, document.querySelector('section')].map((of) => getComputedStyle(of).backgroundColor)";
    assert_eq!(browser.run(ground, &[]), json!(["rgb(255, 255, 255)", "rgb(255, 255, 255)"]));
    for control in ["#playground", "#admin", "[data-range]", ".skip"] {
        assert!(!browser.is_shown(control), "{control}");
    }
    assert!(browser.is_shown("#chart") && browser.is_shown("#policies"));
    scene.ends_well();
}

#[test]
fn reduced_motion_is_respected() {
    let scene = Scene::busy();
    scene.browser.prefer("prefers-reduced-motion", "reduce");
    let script = "return getComputedStyle(document.querySelector('.bar div')).transitionDuration";
    assert_eq!(scene.browser.run(script, &[]), "0s");
    scene.ends_well();
}

/// Waits are rounded up; uptimes are rounded down.
#[test]
fn durations_are_rounded() {
    let scene = Scene::new().live();
    let script = "return import('/dashboard/format.js') \
        .then(({ duration }) => arguments[0].map((us) => duration(us)))";
    for (us, expected) in [
        (0_u64, "now"),
        (1, "1 ms"),
        (999_000, "999 ms"),
        (999_001, "1 s"),
        (1_000_001, "1.1 s"),
        (59_900_000, "59.9 s"),
        (59_900_001, "1 min"),
        (61_000_001, "1 min 2 s"),
        (3_599_000_001, "1 h"),
        (3_659_000_000, "1 h 1 min"),
        (86_341_000_000, "1 d"),
        (90_001_000_000, "1 d 2 h"),
    ] {
        assert_eq!(scene.browser.run(script, &[json!([us])]), json!([expected]), "{us}");
    }
    let script = "return import('/dashboard/format.js').then(({ duration }) => duration(3659e6, Math.floor))";
    assert_eq!(scene.browser.run(script, &[]), "1 h");
    scene.ends_well();
}

/// The text describes everything that the chart draws.
#[test]
fn the_picture_in_words() {
    let scene = Scene::new().live();
    let script = "return import('/dashboard/chart.js').then(({ Chart }) => { \
        const figure = document.createElement('figure'); \
        const chart = new Chart(figure, { name: 'Decisions', format: String, \
            series: [['allowed', 'Allowed', 'c-allow'], ['refused', 'Refused', 'c-deny']] }); \
        const none = figure.querySelector('.chart-text').textContent; \
        chart.show([{ at: 1e6, values: { allowed: 1, refused: 2 } }, { at: 3e6, values: { allowed: 4, refused: 0 } }], 3e6, 120e6); \
        return [none, figure.querySelector('.chart-text').textContent]; })";
    let words = scene.browser.run(script, &[]);
    let some = "Decisions, the last 2 s: at most 4; now Allowed 4, Refused 0.";
    assert_eq!(words, json!(["Decisions: no data yet.", some]));
    scene.ends_well();
}

/// As a screen reader finds it.
#[test]
fn everything_has_a_name() {
    let scene = Scene::busy();
    let tree = scene.browser.chromium("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree has nodes");
    let of_role = |role: &str| -> Vec<&Value> {
        nodes
            .iter()
            .filter(|node| node["role"]["value"] == role && node["ignored"] != true)
            .collect()
    };
    for role in [
        "button",
        "textbox",
        "spinbutton",
        "combobox",
        "radio",
        "meter",
        "table",
        "region",
        "image",
    ] {
        let found = of_role(role);
        assert!(!found.is_empty(), "there is a {role}");
        for node in found.iter().filter(|_| role != "table") {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            assert!(!name.trim().is_empty(), "a {role} without a name: {node}");
        }
    }
    for role in ["main", "banner", "contentinfo", "heading", "status"] {
        assert!(!of_role(role).is_empty(), "there is a {role}");
    }
    scene.ends_well();
}

//! Light and dark, wide and narrow, on paper, heard, and without scripts.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use waterclock_rehearse::report::page;

use super::{Shown, fixture};
use crate::dashboard::looks::FAINT_TEXTS;

#[test]
fn light_and_dark_can_be_read() {
    let shown = Shown::report();
    let browser = &shown.browser;
    browser.click("#clients .opens");
    let ground = || browser.run("return getComputedStyle(document.body).backgroundColor", &[]);
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer("prefers-color-scheme", scheme);
        assert_eq!(browser.run(FAINT_TEXTS, &[]), json!([]), "{scheme}");
        grounds.push(ground());
    }
    assert_ne!(grounds[0], grounds[1]);
    shown.ends_well();
}

#[test]
fn a_narrow_screen_is_enough() {
    let shown = Shown::report();
    shown.browser.click("#clients .opens");
    shown
        .browser
        .run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })", &[]);
    shown.narrow();
    shown.browser.point("#timeline .plot", 0.9);
    shown.narrow();
    shown.ends_well();
}

/// On paper there are no controls, and what matters is open; afterwards it is as it was.
#[test]
fn paper() {
    let shown = Shown::report();
    let browser = &shown.browser;
    browser.prefer("prefers-color-scheme", "dark");
    let note = "window.seen = []; addEventListener('beforeprint', () => window.seen.push( \
        document.querySelectorAll('details[open]').length, \
        [...document.querySelectorAll('.detail')].filter((row) => row.checkVisibility()).length))";
    browser.run(note, &[]);
    let pdf = browser.chromium("Page.printToPDF", &json!({ "printBackground": true }));
    let pdf = BASE64_STANDARD.decode(pdf["data"].as_str().expect("a document")).expect("base64");
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 20_000, "{}", pdf.len());
    assert_eq!(browser.run("return window.seen", &[]), json!([1, 5]));
    assert_eq!(browser.run("return document.querySelectorAll('details[open]').length", &[]), 0);
    assert!(!browser.is_shown(".detail"));
    browser.chromium("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
    for control in [".controls", ".hint", ".curve input", ".copy button", ".more"] {
        assert!(!browser.is_shown(control), "{control}");
    }
    let ground = browser.run("return getComputedStyle(document.body).backgroundColor", &[]);
    assert_eq!(ground, "rgb(255, 255, 255)");
    // No table is cut at the edge of A4 or of Letter, upright or across.
    let cut = "return [...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth + 1).length";
    for width in [680, 718, 740, 800, 980] {
        let size =
            json!({ "width": width, "height": 1_000, "deviceScaleFactor": 1, "mobile": true });
        browser.chromium("Emulation.setDeviceMetricsOverride", &size);
        assert_eq!(browser.run(cut, &[]), 0, "{width}");
    }
    shown.ends_well();
}

/// As a screen reader finds it.
#[test]
fn everything_has_a_name() {
    let shown = Shown::report();
    shown.browser.click("#clients .opens");
    let tree = shown.browser.chromium("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("a tree has nodes");
    let of_role = |role: &str| -> Vec<&Value> {
        let is_seen = |node: &&Value| node["role"]["value"] == role && node["ignored"] != true;
        nodes.iter().filter(is_seen).collect()
    };
    for role in ["button", "slider", "columnheader", "rowheader", "group", "heading"] {
        let found = of_role(role);
        assert!(!found.is_empty(), "there is a {role}");
        for node in found {
            let name = node["name"]["value"].as_str().unwrap_or_default();
            let is_named = !name.trim().is_empty() || node["role"]["value"] == "group";
            assert!(is_named, "a {role} without a name: {node}");
        }
    }
    for role in ["main", "banner", "contentinfo", "table"] {
        assert!(!of_role(role).is_empty(), "there is a {role}");
    }
    shown.ends_well();
}

/// Everything that Rust knows is there; what only a script can draw is not promised.
#[test]
fn without_scripts() {
    let html = page(&fixture::report());
    let (before, _) = html.split_once("<script type=\"module\">").expect("a script");
    let shown = Shown::new(before);
    let text = shown.browser.text("body");
    for part in [
        "6.4 % refused",
        "198.51.100.23",
        "3,200",
        "Apart from one outlier, 99 % of clients never exceed 60/min",
        "What to change: burst from 30/min to 60/min: refuses 4 of 1,000 clients, not 60.",
        "600/h",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!shown.browser.is_shown("#timeline") && !shown.browser.is_shown(".more"));
    assert!(shown.browser.is_shown("section details summary"));
    shown.ends_well();
}

/// A report without advice, or of an empty log, has fewer sections and no errors.
#[test]
fn what_is_missing_has_no_section() {
    let mut report = fixture::report();
    for field in ["limits", "top_clients", "advice", "curves"] {
        report[field].take();
    }
    let empty = json!({ "headline": "nothing to check", "source": "nothing", "policy": "web", "checks": 0, "timeline": { "bin_us": 1000, "bins": [] } });
    for (report, headline) in
        [(report, "6.4 % refused; 3 of 1,000 clients"), (empty, "Nothing to check")]
    {
        let shown = Shown::new(&page(&report));
        shown.browser.await_text("h1", headline);
        assert!(!shown.browser.is_shown(".curve") && !shown.browser.is_shown(".advice"));
        shown.ends_well();
    }
}

/// Allowed, refused and shadow-refused look the same there and here, in light and in dark.
#[test]
fn the_colours_are_the_dashboards() {
    let colours = |file: &str| -> Vec<String> {
        let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
        let style = std::fs::read_to_string(path).expect("the repository can be read");
        let (before, _) = style.split_once("--shadow-fill: #5d468a;").expect("colours of the dark");
        let declared =
            before.split([';', '{']).map(str::trim).filter(|part| part.starts_with("--"));
        declared.map(str::to_owned).collect()
    };
    let [dashboard, page] =
        ["waterclock-server/src/dashboard/dashboard.css", "waterclock-rehearse/src/page/page.css"]
            .map(colours);
    assert!(dashboard.len() > 20, "{dashboard:?}");
    assert_eq!(page, dashboard);
}

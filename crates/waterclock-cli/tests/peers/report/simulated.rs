//! The page of `simulate --html`: a finished picture, without any script.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::{Shown, written_by};
use crate::dashboard::looks::FAINT_TEXTS;

const POLICIES: &str = r#"
[policies.web]
limits = ["10/s", { name = "watch", algorithm = "gcra", limit = 5, per = "1s", shadow = true }]
"#;

fn simulated(arguments: &[&str], trace: &str) -> Shown {
    let arguments = [&["simulate"], arguments].concat();
    Shown::new(&written_by(&arguments, &[("waterclock.toml", POLICIES), ("trace.jsonl", trace)]))
}

#[test]
fn a_picture_that_can_be_read_everywhere() {
    let shown =
        simulated(&["10/s token-bucket", "10/s fixed-window", "--for", "6s", "--seed", "3"], "");
    let browser = &shown.browser;
    let headline = browser.text("h1");
    assert!(
        headline.starts_with("10/s token-bucket refuses 2")
            && headline.contains(" %, 10/s fixed-window refuses "),
        "{headline}"
    );
    // A tooltip of each bar has its numbers.
    let tips = "return [...document.querySelectorAll('svg .hover title')].map((title) => title.textContent)";
    let tips = browser.run(tips, &[]);
    let tips: Vec<&str> =
        tips.as_array().expect("a list").iter().filter_map(|tip| tip.as_str()).collect();
    assert!(tips.len() > 20, "{tips:?}");
    assert!(
        tips.iter().any(|tip| tip.contains(" refused by 10/s") || tip.contains("retry in ")),
        "{tips:?}"
    );
    for scheme in ["light", "dark"] {
        browser.prefer("prefers-color-scheme", scheme);
        assert_eq!(browser.run(FAINT_TEXTS, &[]), json!([]), "{scheme}");
    }
    // On a telephone the picture keeps a size at which its words can be read, and is moved, not the page.
    shown.narrow();
    let text =
        "return document.querySelector('svg.waterclock .name').getBoundingClientRect().height";
    assert!(browser.run(text, &[]).as_f64() > Some(9.0));
    let moved = "const figure = document.querySelector('figure'); figure.scrollLeft = 9999; return figure.scrollLeft";
    assert!(browser.run(moved, &[]).as_f64() > Some(100.0));
    let pdf = browser.chromium("Page.printToPDF", &json!({ "printBackground": true }));
    let pdf = BASE64_STANDARD.decode(pdf["data"].as_str().expect("a document")).expect("base64");
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 10_000, "{}", pdf.len());
    shown.ends_well();
}

/// Shadow limits are drawn, and clients that retry are counted.
#[test]
fn shadow_and_retries() {
    let arguments = [
        "-c",
        "waterclock.toml",
        "--arrivals",
        "herd",
        "--retries",
        "3",
        "--keys",
        "5",
        "--for",
        "10s",
    ];
    let shown = simulated(&arguments, "");
    let browser = &shown.browser;
    assert!(browser.text("h1").starts_with("web refuses "));
    let told = browser.text("main");
    for part in ["honour Retry-After", "ignore it, retry every 1 s"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let drawn = browser.run("return document.querySelector('svg.waterclock').textContent", &[]);
    let drawn = drawn.as_str().unwrap_or_default();
    assert!(
        drawn.contains("Shadow limits would refuse") && drawn.contains("shadow-refused"),
        "{drawn}"
    );
    let path =
        "return document.querySelector('svg.waterclock path.in-shadow').getAttribute('d').length";
    assert!(browser.run(path, &[]).as_u64() > Some(20));
    shown.ends_well();
}

/// Keys of a trace that want to be more than text, in the legend and in tooltips.
#[test]
fn hostile_keys_are_text() {
    let evil = "</title></svg><img src=x onerror=window.pwned=1><script>window.pwned=1</script>\u{202e}gnp";
    let line = |n: u64| format!("{}\n", json!({ "t_us": n * 1_000, "key": evil }));
    let trace: String = (0..40).map(line).collect();
    let shown = simulated(&["5/s", "--arrivals", "trace.jsonl"], &trace);
    let browser = &shown.browser;
    let drawn = browser.run("return document.querySelector('svg.waterclock').textContent", &[]);
    let drawn = drawn.as_str().unwrap_or_default();
    assert!(drawn.contains("<script>window.pwned=1</script>\\u{202e}gnp"), "{drawn}");
    assert_eq!(browser.run("return typeof window.pwned", &[]), "undefined");
    assert_eq!(browser.run("return document.images.length + document.scripts.length", &[]), 0);
    shown.ends_well();
}

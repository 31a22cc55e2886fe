//! A log without any limit: the page says what a limit could be.

use serde_json::json;

use super::fixture::access_log;
use super::{Shown, written_by};
use crate::browser::{HOME, RIGHT};
use crate::dashboard::looks::FAINT_TEXTS;

const SLIDER: &str = ".curve input[type=range]";

fn advised() -> Shown {
    let log = access_log();
    let arguments = ["replay", "access.log", "--input", "combined"];
    let shown = Shown::new(&written_by(&arguments, &[("access.log", &log)]));
    shown.browser.await_text("#timeline .caption", "each bar is");
    shown
}

#[test]
fn the_answer_comes_first() {
    let shown = advised();
    let browser = &shown.browser;
    let headline = browser.text("h1");
    assert!(
        headline.starts_with("No limit yet; ") && headline.ends_with(" of checks"),
        "{headline}"
    );
    let sections = "return [...document.querySelectorAll('h2')].map((title) => title.innerText)";
    assert_eq!(
        browser.run(sections, &[]),
        json!([
            "Advice",
            "What another limit would have refused",
            "The traffic",
            "Over time",
            "Clients",
            "Notes about the traffic"
        ])
    );
    // The slider begins at the number of the headline, and its share is the headline's.
    let number = headline.strip_prefix("No limit yet; ").unwrap().split(' ').next().unwrap();
    let says = browser.text(".curve .says");
    assert!(says.starts_with(&format!("At {number}: ")), "{says}");
    // The configuration can be copied, and nothing speaks of refusals that there were not.
    assert!(browser.text("[data-copy] pre").starts_with("[policies.api]\nlimits = ["));
    browser.click("[data-copy] button");
    browser.await_text("[data-copy] button", "ed");
    let heads = browser.text("#clients thead");
    assert!(!heads.contains("refused") && heads.contains("share of checks"), "{heads}");
    browser.click("#clients .opens");
    assert!(browser.text(".detail").contains("python-requests/2.32"));
    for scheme in ["light", "dark"] {
        browser.prefer("prefers-color-scheme", scheme);
        assert_eq!(browser.run(FAINT_TEXTS, &[]), json!([]), "{scheme}");
    }
    shown.narrow();
    shown.ends_well();
}

/// The line below the headline follows the slider, and says again what to change where it began.
#[test]
fn the_slider_moves_the_line_below_the_headline() {
    let shown = Shown::report();
    let browser = &shown.browser;
    let told = || browser.text("#change");
    let before = "What to change: burst from 30/min to 60/min: refuses 4 of 1,000 clients, not 60.";
    assert_eq!(told(), before);
    shown.focus(SLIDER);
    browser.press(&[RIGHT]);
    assert_eq!(told(), "With 60/min: 1.4 % of checks refused; 4 of 1,000 clients.");
    browser.press(&[HOME]);
    assert_eq!(told(), "With 10/min: 60.0 % of checks refused; 400 of 1,000 clients.");
    browser.press(&[RIGHT]);
    assert_eq!(told(), before);
    shown.ends_well();
}

/// A log of whole seconds, in which bars of two and a half seconds would have two or three: on no screen a comb.
#[test]
fn bars_do_not_alternate() {
    let log: String = (0..3_200)
        .map(|n| {
            let (minute, second) = (n / 20 / 60, n / 20 % 60);
            format!("10.0.0.{} - - [10/Oct/2026:13:{minute:02}:{second:02} +0000] \"GET / HTTP/1.1\" 200 9\n", n % 9)
        })
        .collect();
    let arguments = ["replay", "access.log", "--input", "combined"];
    let shown = Shown::new(&written_by(&arguments, &[("access.log", &log)]));
    let browser = &shown.browser;
    browser.await_text("#timeline .caption", "each bar is");
    shown.narrow();
    shown.focus("#timeline .plot");
    let bars: usize =
        shown.attribute("#timeline .plot", "aria-valuemax").parse().expect("a number");
    let mut counts = Vec::new();
    for _ in 0..bars {
        browser.press(&[RIGHT]);
        counts.push(shown.told("Checks"));
    }
    assert!(counts.len() > 10 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    shown.ends_well();
}

//! Checks over time: pointing, dragging, keys.

use super::{Shown, fixture, sum};
use crate::browser::{END, ESCAPE, RIGHT};

const PLOT: &str = "#timeline .plot";

/// What the pointer tells is what the report counts, in merged bins too.
#[test]
fn pointing_at_a_bar_tells_its_numbers() {
    let shown = Shown::report();
    let browser = &shown.browser;
    assert!(!browser.is_shown(".tip"));
    browser.point(PLOT, 0.36);
    assert!(browser.is_shown("#timeline .tip"));
    let (checks, allowed, refused) =
        (shown.told("Checks"), shown.told("Allowed"), shown.told("Refused"));
    assert!(refused > 0 && checks == allowed + refused, "{checks} {allowed} {refused}");
    assert!(shown.told("by burst") + shown.told("by hourly") >= refused, "some by both");

    // All bars together are all checks.
    shown.focus(PLOT);
    let bars: usize = shown.attribute(PLOT, "aria-valuemax").parse().expect("a number");
    browser.press(&[ESCAPE]);
    let mut sums = [0, 0];
    for _ in 0..=bars {
        browser.press(&[RIGHT]);
        sums[0] += shown.told("Checks");
        sums[1] += shown.told("Allowed");
    }
    let report = fixture::report();
    assert_eq!(sums, [sum(&report, "offered"), sum(&report, "allowed")]);
    shown.ends_well();
}

#[test]
fn dragging_zooms_and_a_button_resets() {
    let shown = Shown::report();
    let browser = &shown.browser;
    let whole = shown.caption();
    assert!(whole.ends_with("Drag to zoom."), "{whole}");
    let is_disabled = "return document.querySelector('#timeline .reset').disabled";
    assert_eq!(browser.run(is_disabled, &[]), true);
    browser.drag(PLOT, 0.35, 0.42);
    let part = shown.caption();
    assert!(part != whole && part.contains("each bar is 3 min"), "{part}");
    // To the left, and closer still.
    browser.drag(PLOT, 0.8, 0.3);
    assert_ne!(shown.caption(), part);
    browser.click("#timeline .reset");
    assert_eq!((shown.caption(), browser.run(is_disabled, &[])), (whole.clone(), true.into()));
    // A click is no range.
    browser.drag(PLOT, 0.5, 0.5);
    assert_eq!(shown.caption(), whole);
    shown.ends_well();
}

#[test]
fn everything_by_keyboard() {
    let shown = Shown::report();
    let browser = &shown.browser;
    let whole = shown.caption();
    shown.focus(PLOT);
    let bars: u32 = shown.attribute(PLOT, "aria-valuemax").parse().expect("a number");
    assert!(bars > 100, "{bars}");
    browser.press(&[END]);
    assert_eq!(shown.attribute(PLOT, "aria-valuenow"), bars.to_string());
    let last = shown.attribute(PLOT, "aria-valuetext");
    assert!(last.contains(": Checks ") && last.contains(", Allowed "), "{last}");
    browser.press(&["+", "+", "+", RIGHT]);
    let near = shown.attribute(PLOT, "aria-valuetext");
    assert!(near != last && shown.caption() != whole, "{near}");
    browser.press(&[ESCAPE]);
    assert_eq!(shown.caption(), whole);
    // The buttons are reached and work as well.
    shown.focus("#timeline [aria-label='Zoom in']");
    browser.press(&[crate::browser::ENTER]);
    assert_ne!(shown.caption(), whole);
    shown.focus("#timeline [aria-label='Later']");
    let before = shown.caption();
    browser.press(&[crate::browser::SPACE]);
    assert_ne!(shown.caption(), before);
    shown.ends_well();
}

/// The reader's clock, with UTC for the pointer.
#[test]
fn times_are_the_readers() {
    let shown = Shown::report();
    let browser = &shown.browser;
    let zone = serde_json::json!({ "timezoneId": "Asia/Kolkata" });
    browser.chromium("Emulation.setTimezoneOverride", &zone);
    browser.reload();
    browser.await_text("#timeline .caption", "Asia/Calcutta");
    assert!(browser.text(".lead").contains("05:30:00"), "{}", browser.text(".lead"));
    assert!(shown.attribute(".lead time", "title").contains("00:00:00Z (UTC)"));
    shown.ends_well();
}

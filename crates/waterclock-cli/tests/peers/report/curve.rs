//! Another limit, tried with the slider.

use super::Shown;
use crate::browser::{END, RIGHT};

const SLIDER: &str = ".curve input[type=range]";

#[test]
fn the_slider_says_what_another_limit_refuses() {
    let shown = Shown::report();
    let browser = &shown.browser;
    let says = || browser.text(".curve .says");
    assert_eq!(says(), "At 30/min (now): 6.0 % of clients, 18.0 % of checks refused");
    shown.focus(SLIDER);
    browser.press(&[RIGHT]);
    assert_eq!(says(), "At 60/min: 0.40 % of clients, 1.4 % of checks refused");
    assert_eq!(shown.attribute(SLIDER, "aria-valuetext"), says());
    assert!(browser.text(".curve .copy pre").contains("limit = 60, per = \"1m\""));
    assert!(browser.text(".curve .small").contains("4 clients of 1,000"));
    browser.press(&[END]);
    assert_eq!(says(), "At 240/min: 0 % of clients, 0 % of checks refused");
    assert!(browser.text(".curve .copy pre").contains("limit = 240,"));
    // A click on the left end as well.
    browser.drag(SLIDER, 0.99, 0.01);
    assert_eq!(says(), "At 10/min: 40.0 % of clients, 60.0 % of checks refused");
    shown.ends_well();
}

/// A page from a file may not write to the clipboard everywhere; then the text is selected.
#[test]
fn the_configuration_can_be_copied() {
    let shown = Shown::report();
    let browser = &shown.browser;
    browser.click(".curve .copy button");
    let selected = browser.run("return getSelection().toString()", &[]);
    assert_eq!(selected, browser.text(".curve .copy pre"));
    browser.await_text(".curve .copy button", "ed");
    shown.ends_well();
}

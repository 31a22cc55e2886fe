//! Rows that open.

use super::Shown;
use crate::browser::ENTER;

#[test]
fn a_client_opens_to_what_it_did() {
    let shown = Shown::report();
    let browser = &shown.browser;
    assert!(!browser.is_shown(".detail"));
    browser.click("#clients .opens");
    assert!(browser.is_shown(".detail"));
    assert_eq!(shown.attribute("#clients .opens", "aria-expanded"), "true");
    let id = shown.attribute("#clients .opens", "aria-controls");
    assert_eq!(shown.attribute(".detail", "id"), id);
    let told = browser.text(".detail");
    for part in [
        "5,200 checks from",
        "burst 3,200, hourly 1,600",
        "one program",
        "/login",
        "900",
        "2 of about 12",
        "curl/8.5.0",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    // Its own chart can be zoomed.
    let before = browser.text(".detail .caption");
    browser.drag(".detail .plot", 0.3, 0.45);
    assert_ne!(browser.text(".detail .caption"), before);
    browser.press(&[]);
    shown.focus("#clients .opens");
    browser.press(&[ENTER]);
    assert!(!browser.is_shown(".detail"));
    shown.ends_well();
}

#[test]
fn more_clients_are_shown_when_asked_for() {
    let shown = Shown::report();
    let browser = &shown.browser;
    let seen = "return [...document.querySelectorAll('#clients tbody tr')].filter((row) => row.checkVisibility()).length";
    assert_eq!(browser.run(seen, &[]), 12);
    browser.click(".more");
    assert_eq!(browser.run(seen, &[]), 30);
    assert_eq!(browser.focused(), "192.0.2.12", "the first of the new ones");
    shown.ends_well();
}

//! Two policies side by side.

use serde_json::json;

use super::fixture::{NEW, OLD, access_log};
use super::{Shown, written_by};
use crate::browser::RIGHT;
use crate::dashboard::looks::FAINT_TEXTS;

pub(super) fn compared(log: &str) -> String {
    let files = [("old.toml", OLD), ("new.toml", NEW), ("access.log", log)];
    let arguments =
        ["diff", "old.toml", "new.toml", "--trace", "access.log", "--input", "combined"];
    written_by(&arguments, &files)
}

#[test]
fn old_and_new_on_one_scale_with_reasons() {
    let shown = Shown::new(&compared(&access_log()));
    let browser = &shown.browser;
    browser.await_text("#timeline .caption", "each bar is");
    let headline = browser.text("h1");
    for part in ["newly refused", "newly allowed", "of checks refused before"] {
        assert!(headline.contains(part), "{part} in {headline}");
    }
    // The numbers of the two lanes' scales are the same.
    let scales = "const at = [...document.querySelectorAll('#timeline svg text')]; \
        const lanes = at.map((text, index) => (text.classList.contains('lane') ? index : -1)).filter((index) => index >= 0); \
        const scale = (lane) => at.slice(lanes[lane] + 1, lanes[lane + 1]).map((text) => text.textContent); \
        return [scale(0), scale(1)]";
    let scales = browser.run(scales, &[]);
    assert!(
        scales[0] == scales[1] && scales[0].as_array().is_some_and(|all| all.len() > 2),
        "{scales}"
    );
    let told = browser.text("main");
    for part in [
        "refused by daily, which is new",
        "allowed because burst was 30 per 1 min, capacity 10 and is 60 per 1 min, capacity 20",
        "refused by hourly, because calls before that were refused are allowed now and count",
        "198.51.100.23",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }

    let whole = shown.caption();
    browser.drag("#timeline .plot", 0.35, 0.5);
    assert_ne!(shown.caption(), whole);
    browser.press(&[RIGHT]);
    browser.point("#timeline .plot", 0.5);
    assert!(shown.told("Checks") > 0);
    browser.click("#timeline .reset");
    assert_eq!(shown.caption(), whole);
    for scheme in ["light", "dark"] {
        browser.prefer("prefers-color-scheme", scheme);
        assert_eq!(browser.run(FAINT_TEXTS, &[]), json!([]), "{scheme}");
    }
    shown.narrow();
    shown.ends_well();
}

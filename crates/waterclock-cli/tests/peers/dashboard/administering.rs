//! Tokens, and administration of single keys.

use super::Scene;

/// A server with a token for reading and checking, and one for administration.
fn guarded() -> Scene {
    let auth = "[server]\nshow_keys = true\nauth = [{ token = \"${READER}\", roles = [\"read\", \"check\"] }, \
        { token = \"${CHECKER}\", roles = [\"check\"] }, { token = \"${LOOKER}\", roles = [\"read\"] }, \
        { token = \"${ADMIN}\", roles = [\"admin\"] }]\n";
    let secrets = [
        ("READER", "open-the-book"),
        ("CHECKER", "just-check"),
        ("LOOKER", "just-look"),
        ("ADMIN", "open-sesame"),
    ];
    Scene::with(auth, secrets.map(|(name, token)| (name.to_owned(), token.to_owned())).into())
}

impl Scene {
    fn show_token(&self, token: &str) {
        self.browser.fill("#token", token);
        self.browser.click("#token-form button.primary");
    }

    fn exhaust(&self) {
        while self.check().starts_with("Allowed") {}
    }
}

#[test]
fn a_token_opens_the_page_and_stays_in_memory() {
    let scene = guarded();
    let browser = &scene.browser;
    browser.await_text("#sign-in-error", "This server needs a token with the role read.");
    scene.show_token("wrong");
    browser.await_text("#sign-in-error", "The server does not know this token.");
    scene.show_token("open-the-book");
    let scene = scene.live();
    let browser = &scene.browser;
    assert_eq!(browser.run("return document.getElementById('token').value", &[]), "");
    let kept = browser.run(
        "return JSON.stringify([localStorage, sessionStorage, document.cookie, location.href]) + document.documentElement.outerHTML",
        &[],
    );
    assert!(!kept.to_string().contains("open-the-book"), "{kept}");
    assert!(browser.text("#curl").contains("-H \"Authorization: Bearer $TOKEN\""));
    assert!(browser.text("footer").contains("OpenAPI"));
    assert!(!browser.text("footer").contains("Metrics"), "a link sends no token");

    // Signing out removes what was read with the token.
    scene.about("rare", "whose-key");
    scene.exhaust();
    browser.await_text("#refused", "whose-key");
    browser.click("#token-clear");
    browser.await_text("#sign-in-error", "needs a token");
    let left = "return document.documentElement.outerHTML + \
        [...document.querySelectorAll('input')].map(({ value }) => value)";
    let left = browser.run(left, &[]);
    assert!(!left.to_string().contains("whose-key"), "{left}");
    assert_eq!(browser.text("#policies"), "");
    // Signing in shows it again.
    scene.show_token("open-the-book");
    browser.await_text("#refused", "whose-key");
    browser.await_text("#policy", "rare");
    scene.ends_well();
}

/// Controls that would fail are absent, and a sentence says why.
#[test]
fn no_control_is_dead() {
    let scene = guarded();
    let browser = &scene.browser;
    browser.await_text("#sign-in-error", "needs a token");
    browser.click("#token-form button.primary");
    browser.await_text("#sign-in-error", "Enter a token first.");
    scene.show_token("just-check");
    browser
        .await_text("#sign-in-error", "This token has the role check; the dashboard needs read.");
    assert!(!browser.is_shown("main"), "nothing to see");
    scene.show_token("just-look");
    let scene = scene.live();
    let browser = &scene.browser;
    browser.await_text("#role", "Signed in: read");
    let shown = "return [...document.querySelectorAll('main button, main input, main select')] \
        .filter((control) => control.checkVisibility()).map((control) => control.dataset.do ?? control.id).filter(Boolean)";
    let shown = || browser.run(shown, &[]).to_string();
    assert!(!shown().contains("\"fire\"") && !shown().contains("reset"), "{}", shown());
    browser.await_text(".play", "Checks need a token with the role check");
    browser.await_text("#admin-lacks", "This token lacks the role admin");
    scene.about("rare", "alice");
    assert!(scene.administer("inspect").starts_with("Inspected alice."));
    browser.click("#token-clear");
    browser.await_text("#sign-in-error", "needs a token");
    scene.show_token("open-sesame");
    browser.await_text("#role", "Signed in: check, read, admin");
    browser.await_text("#policy", "rare");
    assert!(shown().contains("\"fire\"") && shown().contains("reset"), "{}", shown());
    assert!(!browser.is_shown("#admin-lacks"));
    scene.ends_well();

    // Where no tokens are configured, there are no administrators.
    let scene = Scene::new().live();
    scene.browser.await_text("#admin-lacks", "This server has no administrator");
    assert!(!scene.browser.is_shown("#sign-in-open"), "there is nothing to sign in with");
    scene.ends_well();
}

#[test]
fn a_reset_makes_a_key_fresh_and_overrides_apply() {
    let scene = guarded();
    scene.browser.await_text("#sign-in-error", "needs a token");
    scene.show_token("open-sesame");
    let scene = scene.live();
    let browser = &scene.browser;
    scene.about("rare", "a/b?c#d%2e");
    scene.exhaust();
    let said = scene.administer("inspect");
    assert!(said.starts_with("Inspected a/b?c#d%2e. It has 0 of 5 left, full again in "), "{said}");
    assert_eq!(scene.administer("reset"), "Reset a/b?c#d%2e. It has 5 of 5 left.");
    browser.await_text("#levels", "5 of 5");
    assert_eq!(scene.check(), "Allowed, 4 left.");

    scene.exhaust();
    browser.fill("#grant", "3");
    let said = scene.administer("grant");
    assert!(said.starts_with("Refunded units to a/b?c#d%2e. It has 3 of 5 left"), "{said}");

    assert_eq!(scene.administer("block"), "Blocked a/b?c#d%2e. It is blocked.");
    assert_eq!(browser.text("#levels"), "", "nothing is left to a blocked key");
    assert_eq!(scene.check(), "Refused; it will never pass.");
    assert_eq!(browser.text("#levels"), "");
    assert!(scene.administer("exempt").ends_with("It is exempt."));
    scene.never_exhausts();
    browser.fill("#custom", "7/h, 9/d");
    assert!(scene.administer("limits").ends_with("It has an override."));
    assert_eq!(scene.check(), "Allowed, 6 left.");
    assert_eq!(browser.run("return document.querySelectorAll('#levels .level').length", &[]), 2);
    browser.fill("#custom", "many");
    assert!(scene.administer("limits").contains("many"), "{}", browser.text("#admin-result"));
    let said = scene.administer("clear");
    assert!(said.starts_with("Cleared the override of"), "{said}");
    assert!(!said.contains("It is") && !said.contains("override."), "{said}");

    // By a factor, for some time.
    browser.fill("#factor", "0.5");
    browser.fill("#expires", "2d");
    assert!(scene.administer("factor").ends_with("It has an override."));
    browser.await_text("#override", "Override: factor 0.5, for another 2 d");
    assert_eq!(
        browser.run("return document.querySelector('#override-list').children.length", &[]),
        0
    );
    browser.click("#overrides summary");
    browser.await_text("#override-list", "a/b?c#d%2e factor 0.5, for another 2 d");
    browser.fill("#expires", "soon");
    assert!(
        scene.administer("block").contains("`expires_in`"),
        "{}",
        browser.text("#admin-result")
    );
    browser.fill("#expires", "");
    browser.fill("#custom", "7/h");
    assert!(scene.administer("limits").ends_with("It has an override."));
    browser.await_text("#override-list", "7/h");
    scene.administer("clear");
    browser.await_text("#override-note", "No key of rare has an override.");
    assert_eq!(browser.text("#override"), "");

    // One that the file blocks.
    scene.about("rare", "mallory");
    assert_eq!(scene.administer("inspect"), "Inspected mallory. It is blocked.");

    // A key made of fields.
    browser.choose("#policy", "login");
    scene.exhaust();
    let said = scene.administer("reset");
    assert!(said.contains("It has 3 of 3 left."), "{said}");
    assert_eq!(scene.check(), "Allowed, 2 left.");
    scene.ends_well();
}

#[test]
fn a_purge_needs_the_name_of_the_policy() {
    let scene = guarded();
    scene.browser.await_text("#sign-in-error", "needs a token");
    scene.show_token("open-sesame");
    let scene = scene.live();
    let browser = &scene.browser;
    scene.about("rare", "k");
    scene.exhaust();
    browser.fill("#purge", "login");
    browser.click("#purge-keys");
    browser.await_text("#admin-result", "Type the policy's name, rare");
    assert!(scene.check().starts_with("Refused"));
    browser.fill("#purge", "rare");
    browser.click("#purge-keys");
    browser.await_text("#admin-result", "of rare. They start fresh.");
    assert_eq!(scene.check(), "Allowed, 4 left.");
    scene.ends_well();
}

impl Scene {
    fn never_exhausts(&self) {
        for _ in 0..7 {
            assert!(self.check().starts_with("Allowed"));
        }
    }
}

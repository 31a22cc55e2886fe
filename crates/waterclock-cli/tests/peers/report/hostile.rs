//! Logs that want to be more than text.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::json;
use waterclock_rehearse::report::page;

use super::{Shown, fixture, written_by};

#[test]
fn hostile_text_is_text() {
    let mut report = fixture::report();
    let evil = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\u{2028}";
    for field in ["source", "policy", "headline"] {
        report[field] = json!(evil);
    }
    report["limits"][0]["name"] = json!(evil);
    report["curves"][0]["limit"] = json!(evil);
    report["top_clients"][0]["agents"] = json!([[evil, 3], ["javascript:window.pwned=1", 2]]);
    report["remarks"] = json!([{ "message": evil }]);
    let shown = Shown::new(&page(&report));
    let browser = &shown.browser;
    browser.await_text("#timeline .caption", "each bar is");
    let open = "document.querySelectorAll('#clients .opens').forEach((opener) => opener.click())";
    browser.run(open, &[]);
    browser.point("#timeline .plot", 0.36);
    assert!(browser.text("h1").contains("<script>window.pwned=1</script>"));
    assert!(browser.text(".tip").contains("</script>"), "{}", browser.text(".tip"));
    let keys = "return [...document.querySelectorAll('#clients .opens bdi')].map((key) => key.textContent)[2]";
    assert_eq!(browser.run(keys, &[]), "<img src=x onerror=\"window.pwned=1\">\\u{202e}gnp.exe");
    assert_eq!(browser.run("return document.querySelectorAll('img').length", &[]), 0);
    assert_eq!(browser.run("return document.scripts.length", &[]), 2);
    assert_eq!(browser.run("return typeof window.pwned", &[]), "undefined", "nothing was executed");
    shown.ends_well();
}

/// The security policy lets nothing out and nothing else in, even if there were a hole.
#[test]
fn nothing_else_runs_and_nothing_leaves() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    server.set_nonblocking(true).expect("a socket of ours");
    let port = server.local_addr().expect("it is bound").port();
    let hole = format!(
        "<script>window.pwned=1</script><img src=\"http://127.0.0.1:{port}/x.png\"></main>"
    );
    let shown = Shown::new(&page(&fixture::report()).replace("</main>", &hole));
    let browser = &shown.browser;
    browser.await_text("#timeline .caption", "each bar is");
    assert_eq!(browser.run("return typeof window.pwned", &[]), "undefined");
    let complaints = browser.complaints();
    assert_eq!(complaints.len(), 2, "the script and the image: {complaints:?}");
    assert!(server.accept().is_err(), "nothing was asked for");
}

/// The same from a log to the page of a comparison, on paper and on a screen.
#[test]
fn an_attack_on_a_comparison() {
    let evil = "<img\\x20src=x\\x20onerror=window.pwned=1>\u{202e}gnp";
    let line =
        format!(r#"10.0.0.1 - {evil} [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 9 "-" "x""#);
    let log = format!("{line}\n").repeat(20);
    let files = [
        ("old.toml", "[policies.web]\nkey = [\"user\"]\nlimits = [\"9/h\"]\n"),
        ("new.toml", "[policies.web]\nkey = [\"user\"]\nlimits = [\"2/h\"]\n"),
        ("access.log", &*log),
    ];
    let arguments =
        ["diff", "old.toml", "new.toml", "--trace", "access.log", "--input", "combined"];
    let shown = Shown::new(&written_by(&arguments, &files));
    let browser = &shown.browser;
    browser.await_text("#timeline .caption", "each bar is");
    browser.point("#timeline .plot", 0.1);
    let told = browser.text("main");
    assert!(told.contains("onerror=window.pwned=1>\\u{202e}gnp"), "{told}");
    assert_eq!(browser.run("return document.querySelectorAll('img').length", &[]), 0);
    assert_eq!(browser.run("return typeof window.pwned", &[]), "undefined");
    browser.chromium("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
    assert!(!browser.is_shown(".controls") && browser.is_shown("#timeline svg"));
    shown.ends_well();
}

/// From a log to the screen.
#[test]
fn a_log_that_is_an_attack() {
    let line = r#"10.0.0.1 - </script><script>window.pwned=1</script> [10/Oct/2026:13:55:36 +0000] "GET /<svg/onload=window.pwned=1> HTTP/1.1" 200 9 "-" "<b>agent""#;
    let log = format!("{line}\n").repeat(20);
    let arguments =
        ["replay", "access.log", "--input", "combined", "--key", "user", "--limit", "2/h"];
    let shown = Shown::new(&written_by(&arguments, &[("access.log", &log)]));
    let browser = &shown.browser;
    browser.await_text("#timeline .caption", "each bar is");
    assert!(browser.text("main").contains("</script><script>window.pwned=1</script>"));
    assert_eq!(browser.run("return typeof window.pwned", &[]), "undefined");
    shown.ends_well();
}

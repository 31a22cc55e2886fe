//! What the banner says works, literally.

use std::process::Command;

use super::process::Serving;
use crate::support::Place;

/// The line of the banner that begins with this word.
fn line(serving: &mut Serving, word: &str) -> String {
    let mut found = None;
    serving.until("the banner", |serving| {
        let mut said = serving.said().into_iter();
        found = found.take().or_else(|| said.find(|line| line.trim().starts_with(word)));
        found.is_some()
    });
    found.unwrap_or_default()
}

fn obey(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).env("TOKEN", "t0ken").output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_demonstration() {
    let mut serving = Serving::start_with(Place::new(), &["serve"], &[]);
    let curl = line(&mut serving, "curl");
    let mut answers = (0..100).map(|_| obey(&curl));
    assert!(answers.next().unwrap().starts_with("HTTP/1.1 200"));
    assert!(answers.any(|answer| answer.starts_with("HTTP/1.1 429")), "a few times, it says");
}

#[test]
fn a_server_that_asks_for_a_token() {
    let config = "[server]\nauth = [{ token = \"${TOKEN}\", roles = [\"check\"] }]\n[policies.p]\nlimits = [\"5/h\"]\n";
    let place = Place::with_config(config);
    let mut serving =
        Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &[("TOKEN", "t0ken")]);
    let curl = line(&mut serving, "curl");
    assert!(!curl.contains("t0ken"), "{curl}");
    assert!(obey(&curl).starts_with("HTTP/1.1 200"));
}

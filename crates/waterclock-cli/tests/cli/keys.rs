//! `waterclock keys`: what a server has in memory, and forgetting it.

use crate::serve::process::Serving;
use crate::support::Place;

const CONFIG: &str = "[server]\nauth = [{ token = \"${MY_TOKEN}\", roles = [\"admin\"] }]\n\
    [policies.p]\nlimits = [\"1/h\"]\n[policies.q]\nlimits = [\"1/h\"]\n";

#[test]
fn keys_are_shown_and_purged() {
    let place = Place::with_config(CONFIG);
    let start = ["serve", "-c", "waterclock.toml"];
    let serving = Serving::start_with(place, &start, &[("MY_TOKEN", "t0ken")]);
    let url = serving.url("http");
    let place = Place::new().file("token", "t0ken\n");
    let access = [&*url, "--token-file", "token"];
    for key in ["a", "b", "c"] {
        let check = ["check", "--server", &*url, "--token-file", "token", "p", key];
        assert_eq!(place.run(&check).code, Some(0));
    }
    let run = place.run(&[&["keys"], &access[..]].concat()).ok();
    assert!(run.stdout.starts_with("keys       3 of 1,000,000\n"), "{}", run.stdout);
    let row = run.stdout.lines().find(|line| line.trim_start().starts_with("p ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((cells[1], cells[5]), ("3", "evict"), "{row}");
    let json = place.run(&[&["keys", "--json"], &access[..]].concat()).ok().json();
    assert_eq!(json["keys"], 3);
    let run = place.run(&[&["keys", "--purge", "p"], &access[..]].concat()).ok();
    assert_eq!(run.stdout, "3 keys of p start fresh\n");
    let run = place.run(&[&["keys", "--purge", "pp"], &access[..]].concat());
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("there is no policy `pp`"), "{}", run.stderr);
    let run = place.run(&["keys", &*url]);
    assert_eq!(run.code, Some(2), "{}", run.stdout);
}

//! `waterclock policy`: policies of a running server.

use crate::serve::process::Serving;
use crate::support::Place;

const CONFIG: &str = "[server]\nauth = [{ token = \"${MY_TOKEN}\", roles = [\"admin\"] }]\n\
    [policies.file]\nlimits = [\"1/h\"]\n";

#[test]
fn policies_are_set_listed_and_deleted() {
    let start = ["serve", "-c", "waterclock.toml"];
    let place = Place::with_config(CONFIG);
    let serving = Serving::start_with(place, &start, &[("MY_TOKEN", "t0ken")]);
    let url = serving.url("http");
    let place = Place::new()
        .file("token", "t0ken\n")
        .file("five.json", r#"{ "limits": ["5/h"] }"#)
        .file("bad.json", r#"{ "limits": ["5/h"], "mod": "nary" }"#);
    let access = ["--server", &*url, "--token-file", "token"];
    let run = |arguments: &[&str]| place.run(&[&["policy"], arguments, &access].concat());
    assert_eq!(run(&["set", "code", "five.json"]).ok().stdout, "policy code is created\n");
    assert_eq!(run(&["set", "code", "five.json"]).ok().stdout, "policy code is unchanged\n");
    let set = [&["policy", "set", "code", "-"], &access[..]].concat();
    let replaced = place.run_with_input(&set, r#"{ "limits": ["9/h"] }"#).ok();
    assert_eq!(replaced.stdout, "policy code is replaced\n");
    let check = ["check", "--server", &*url, "--token-file", "token", "code", "k"];
    assert_eq!(place.run(&check).code, Some(0));

    let shown = run(&["get", "code"]).ok().json();
    assert_eq!(
        (&shown["origin"], &shown["definition"]["limits"][0]),
        (&"store".into(), &"9/h".into())
    );
    let listed = run(&["list"]).ok().stdout;
    let row = |name: &str| {
        let row = listed.lines().find(|line| line.trim_start().starts_with(name));
        row.unwrap_or_default().split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("code")[1..3], ["store", "binary"], "{listed}");
    assert_eq!(row("file")[1], "file", "{listed}");
    let json = run(&["list", "--json"]).ok().json();
    assert_eq!(json["policies"].as_array().unwrap().len(), 2);

    let refused = |arguments: &[&str], part: &str| {
        let refused = run(arguments);
        assert_eq!(refused.code, Some(2), "{}", refused.stdout);
        assert!(refused.stderr.contains(part), "{arguments:?}: {}", refused.stderr);
    };
    refused(&["set", "file", "five.json"], "configuration file, which wins");
    refused(&["set", "code", "bad.json"], "unknown key `mod`");
    refused(&["set", "code", "none.json"], "none.json: there is no such file");
    refused(&["set", "code"], "waterclock policy set NAME FILE");
    refused(&["list", "code"], "waterclock policy list");
    assert_eq!(run(&["delete", "code"]).ok().stdout, "policy code is deleted\n");
    refused(&["delete", "code"], "the store keeps no policy `code`");
    refused(&["get", "code"], "there is no policy `code`");
    let without = place.run(&["policy", "delete", "code", "--server", &*url]);
    assert_eq!(without.code, Some(2), "{}", without.stdout);
}

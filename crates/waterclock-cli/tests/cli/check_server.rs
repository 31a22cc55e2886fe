//! One decision by a running server: the same sentence, JSON and exit code.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use crate::serve::process::Serving;
use crate::support::{Place, Run};

const CONFIG: &str = "[policies.p]\nlimits = [{ name = \"hour\", algorithm = \"gcra\", limit = 3, per = \"1h\" }]\n\
    tiers = { gold = { factor = 0.5 } }\n\
    [policies.part]\nmode = \"nary\"\nlimits = [\"5/h\"]\n\
    [policies.quiet]\nshadow = true\nlimits = [\"1/h\"]\n\
    [policies.llm]\nlimits = [\"3/h\", { algorithm = \"gcra\", limit = 900, per = \"1h\", unit = \"tokens\" }]\n\
    [policies.kind]\nexempt = [\"vip\"]\nlimits = [\"1/h\"]\n";

fn check(url: &str, arguments: &[&str]) -> Run {
    Place::new().run(&[&["check", "--server", url], arguments].concat())
}

#[test]
fn units_are_named() {
    let serving = Serving::start(Place::with_config(CONFIG));
    let url = serving.url("http");
    assert_eq!(check(&url, &["llm", "alice"]).code, Some(0));
    let run = check(&url, &["llm", "alice", "--cost", "tokens=900"]);
    assert!(run.stdout.starts_with("allowed; 0 left"), "{}{}", run.stdout, run.stderr);
    let run = check(&url, &["llm", "alice", "--cost", "tokens=1"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stdout.starts_with("refused by gcra-2"), "{}", run.stdout);
    let run = check(&url, &["llm", "alice", "--cost", "5"]);
    run.warns("name them in the cost");
}

#[test]
fn a_key_is_spent() {
    let serving = Serving::start(Place::with_config(CONFIG));
    let url = serving.url("http");
    for left in (0..3).rev() {
        let run = check(&url, &["p", "alice"]).ok();
        let begins = format!("allowed; {left} left; full again in ");
        assert!(run.stdout.starts_with(&begins), "{}", run.stdout);
    }
    let run = check(&url, &["p", "alice"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    // Rounded up to the second: 19 min 59 s or, on a fast machine, 20 min.
    let retry = ["19 min", "20 min"].map(|wait| format!("refused by hour; retry in {wait}"));
    assert!(retry.iter().any(|begins| run.stdout.starts_with(begins)), "{}", run.stdout);
    let run = check(&url, &["p", "alice", "--json"]);
    assert_eq!(run.code, Some(1));
    let said = run.json();
    assert_eq!((&said["policy"], &said["allowed"]), (&"p".into(), &false.into()));
    assert_eq!(said["limits"][0]["name"], "hour");
    assert_eq!(check(&url, &["p", "bob", "--cost", "3"]).code, Some(0));
    assert_eq!(check(&url, &["p", "carol", "--cost", "4"]).code, Some(1));
    assert_eq!(check(&url, &["p", "carol", "--cost", "4", "--tier", "gold"]).code, Some(0));
}

#[test]
fn in_part_in_shadow_exempt_and_blocked() {
    let config = format!(
        "[server]\nauth = [{{ token = \"${{MY_TOKEN}}\", roles = [\"admin\", \"check\"] }}]\n{CONFIG}"
    );
    let place = Place::with_config(&config);
    let serving =
        Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &[("MY_TOKEN", "t0ken")]);
    let url = serving.url("http");
    let place = Place::new().file("token", "t0ken\n");
    let ask = |arguments: &[&str]| {
        place.run(&[&["check", "--server", &*url, "--token-file", "token"], arguments].concat())
    };
    let part = ask(&["part", "k", "--cost", "6"]);
    assert_eq!(part.code, Some(0), "{}", part.stderr);
    assert!(part.stdout.starts_with("allowed in part: 5 granted; for all of it, it will never"));
    let shadow = ask(&["quiet", "k", "--cost", "2"]);
    assert_eq!(shadow.code, Some(0));
    shadow.says(&["; in shadow, gcra would have refused"]);
    let exempt = ask(&["kind", "vip"]).ok();
    let begins = "allowed by the policy alone, not by the store: the key is exempt or ";
    assert!(exempt.stdout.starts_with(begins), "{}", exempt.stdout);
    assert!(ask(&["kind", "other"]).stdout.starts_with("allowed; 0 left"));
    let lines = ["authorization: Bearer t0ken"];
    let blocked =
        serving.client().ask("PUT", "/v1/policies/p/keys/k/override", &lines, r#"{"block":true}"#);
    assert!(blocked.is_some_and(|answer| answer.status < 300));
    let blocked = ask(&["p", "k"]);
    assert_eq!((blocked.code, blocked.stdout.as_str()), (Some(1), "refused: the key is blocked\n"));
}

#[test]
fn a_token_never_comes_from_the_arguments() {
    let config = format!(
        "[server]\nauth = [{{ token = \"${{MY_TOKEN}}\", roles = [\"check\"] }}]\n{CONFIG}"
    );
    let place =
        Place::with_config(&config).file("wrong", "guess").file("none", "\n").file("two", "a b");
    let serving =
        Serving::start_with(place, &["serve", "-c", "waterclock.toml"], &[("MY_TOKEN", "t0ken")]);
    let url = serving.url("http");
    let arguments = ["check", "--server", &*url, "p", "k"];
    let place = serving.place();
    assert_eq!(place.run_with(&[("WATERCLOCK_TOKEN", "t0ken")], &arguments).code, Some(0));
    for (file, sentence) in [
        (None, "needs a token with the role `check`"),
        (Some("wrong"), "the token is not known; put the token into WATERCLOCK_TOKEN"),
        (Some("none"), "none: a token is one word of visible ASCII characters"),
        (Some("two"), "two: a token is one word"),
        (Some("missing"), "missing: "),
    ] {
        let file: &[&str] = &file.map_or(vec![], |file| vec!["--token-file", file]);
        let run = place.run(&[&arguments[..], file].concat());
        run.fails(sentence);
    }
}

#[test]
fn other_servers_are_recognised() {
    let serving = Serving::start(Place::with_config(CONFIG));
    let web = stranger("HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello");
    let noise = stranger("SSH-2.0-OpenSSH_9.2\r\n");
    let silent = stranger("");
    let liar = stranger(
        "HTTP/1.1 400 Bad Request\r\ncontent-length: 26\r\n\r\n{\"detail\":\"\\u001b[31mred\"}",
    );
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let http = serving.url("http");
    let cases = [
        (http.clone(), "q", "there is no policy `q`"),
        (http.clone(), "zzzz", "; the server has `"),
        (serving.url("resp").replace("redis", "http"), "p", "check that this is its HTTP address"),
        (web, "p", "is not a waterclock server: it answers status 404 to POST /v1/check"),
        (noise, "p", "does not speak HTTP"),
        (silent, "p", "closed the connection before it answered"),
        (liar, "p", "\\u{1b}[31mred"),
        (
            format!("http://{closed}"),
            "p",
            "cannot be reached: Connection refused; check the address",
        ),
        (format!("{http}/v1/check"), "p", "is not a server's address; write http://HOST:PORT"),
        (serving.url("resp"), "p", "only HTTP answers this"),
    ];
    for (url, policy, sentence) in cases {
        let run = check(&url, &[policy, "k"]);
        run.fails(sentence);
    }
}

#[test]
fn a_file_and_a_server_are_two_things() {
    let place = Place::with_config(CONFIG).file("token", "t");
    let both = place.run(&["check", "--server", "http://h", "-c", "waterclock.toml", "p", "k"]);
    assert_eq!(both.code, Some(2));
    let token = place.run(&["check", "--token-file", "token", "p", "k"]);
    assert_eq!(
        (token.code, token.stderr.as_str()),
        (Some(2), "--token-file is for a server; name it with --server\n")
    );
    let ca = place.run(&["check", "--ca", "ca.pem", "p", "k"]);
    assert_eq!(
        (ca.code, ca.stderr.as_str()),
        (Some(2), "--ca is for a server; name it with --server\n")
    );
}

/// A server that gives the same answer to every request.
fn stranger(says: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(says.as_bytes());
        }
    });
    format!("http://{address}")
}

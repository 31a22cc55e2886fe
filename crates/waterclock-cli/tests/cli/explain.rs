//! The story of a limit.

use crate::support::Place;

#[test]
fn a_limit_in_a_few_words() {
    let run = Place::new().run(&["explain", "100 per minute"]).ok();
    run.says(&[
        "100 requests per 1 min on average and up to 100 at once; one returns every 600 ms",
        "at most 100 + 100·D/1 min in any window of length D",
        "at 0 s: 100 passed",
        "then refused by gcra: retry in 600 ms",
        "at 1.2 s: 1 passed, the next in 600 ms",
        "a cost above 100 never passes whole",
    ]);
}

#[test]
fn words_need_no_quotes() {
    let place = Place::new();
    let cases: [(&[&str], &str); 3] = [
        (&["explain", "5", "per", "second"], "5 requests per 1 s on average"),
        (&["explain", "5", "per", "10", "seconds"], "5 requests per 10 s on average"),
        (&["explain", "1/s", "quota"], "1 request in each 1 s since"),
    ];
    for (arguments, expected) in cases {
        let run = place.run(arguments).ok();
        run.says(&[expected]);
    }
}

#[test]
fn a_policy_of_a_file() {
    let place =
        Place::with_limits("\"5/s quota\", { algorithm = \"min-interval\", every = \"2s\" }");
    let run = place.run(&["explain", "-c", "waterclock.toml", "--policy", "p"]);
    assert_eq!(run.code, Some(0));
    run.says(&["when both limits agree."]);
    run.says(&["then refused by min-interval: retry in 2 s"]);
}

#[test]
fn any_algorithm_has_a_story() {
    for algorithm in [
        "gcra",
        "token-bucket",
        "fixed-window",
        "sliding-window",
        "rolling-window",
        "quota",
        "even-slots",
    ] {
        let run = Place::new().run(&["explain", &format!("4/1m {algorithm}")]);
        assert_eq!(run.code, Some(0), "{algorithm}: {}", run.stderr);
        assert!(
            run.stdout.contains("without further requests: fresh again"),
            "{algorithm}: {}",
            run.stdout
        );
    }
    let run = Place::new().run(&["explain", "4 parsecs"]);
    assert_eq!(run.code, Some(2));
}

#[test]
fn a_candidate_in_shadow_changes_nothing_of_the_story() {
    let live = "{ name = \"live\", algorithm = \"gcra\", limit = 10, per = \"1m\" }";
    let candidate =
        "{ name = \"next\", algorithm = \"gcra\", limit = 2, per = \"1h\", shadow = true }";
    let story = |limits: &str| {
        let run = Place::with_limits(limits).run(&["explain", "--policy", "p", "--json"]).ok();
        run.json()["story"].clone()
    };
    let alone = story(live);
    assert_eq!(story(&format!("{live}, {candidate}")), alone);
    assert_eq!(alone["steps"][0]["passed"], 10);
    assert_eq!(story(candidate)["unbounded"], true);
}

#[test]
fn what_may_overdraw_passes_in_one_piece() {
    let place =
        Place::with_limits("{ algorithm = \"gcra\", limit = 5, per = \"1m\", overdraft = true }");
    assert_eq!(place.run(&["check", "p", "k", "--cost", "50"]).code, Some(0));
    let run = place.run(&["explain", "--policy", "p"]).ok();
    run.says(&["at 0 s: 5 passed"]);
    assert!(!run.stdout.contains("never passes whole"), "{}", run.stdout);
}

#[test]
fn a_story_ends_with_time() {
    let run = Place::new().run(&["explain", "1/36500d"]).ok();
    run.says(&["at 36500 d: 1 passed, the next in 36500 d"]);
    assert!(!run.stdout.contains("73000 d") && !run.stdout.contains("0 passed"), "{}", run.stdout);
    assert!(run.stdout.ends_with("a cost above 1 never passes whole\n"), "{}", run.stdout);
}

#[test]
fn several_limits_are_one_policy() {
    let quoted = Place::new().run(&["explain", "10/s", "1000/1h rolling-window"]).ok();
    quoted.says(&[
        "when both limits agree.",
        "then refused by gcra: retry in 100 ms",
        "together, for requests, one at a time:\n",
        "  gcra binds in windows up to 1 min 40 s, rolling-window in longer ones\n",
        "  at most 20 in any 1 s (gcra), 1,000 in any 1 h (rolling-window)\n",
    ]);
    let bare = Place::new().run(&["explain", "10/s", "1000/1h", "rolling-window"]).ok();
    assert_eq!(bare.stdout, quoted.stdout);
    let json = Place::new().run(&["explain", "10/s", "1000/1h rolling-window", "--json"]).ok();
    let together = json.json()["together"][0].clone();
    assert_eq!(together["binds"][0]["limit"], "gcra");
    assert_eq!(together["binds"][0]["until_us"], together["binds"][1]["from_us"]);
    assert_eq!(together["binds"][1]["until_us"], serde_json::Value::Null);
    let most = serde_json::json!({ "window_us": 3_600_000_000_u64, "units": 1_000, "limit": "rolling-window" });
    assert_eq!(together["most"][1], most);
    assert_eq!(json.json()["limits"][1]["most"], most);
}

/// The engine never admits more than the account says.
#[test]
fn what_limits_do_together_is_a_bound() {
    let limits = ["3/s", "7/2s rolling-window", "20/10s fixed-window"];
    let account = Place::new().run(&[&["explain", "--json"], &limits[..]].concat()).json();
    let trace: String = (0..30_000).map(|ms| format!("{{\"t_us\":{}}}\n", ms * 1_000)).collect();
    let flags = limits.iter().flat_map(|limit| ["--limit", limit]);
    let arguments: Vec<&str> = ["replay", "--format", "jsonl"].into_iter().chain(flags).collect();
    let lines = Place::new().run_with_input(&arguments, &trace).ok().lines();
    let admitted: Vec<u64> = lines
        .iter()
        .filter(|line| line["allowed"] == true)
        .map(|line| line["t_us"].as_u64().unwrap())
        .collect();
    let most = account["together"][0]["most"].as_array().unwrap();
    assert_eq!(most.len(), 3);
    for most in most {
        let (window, units) =
            (most["window_us"].as_u64().unwrap(), most["units"].as_u64().unwrap());
        let within =
            |from: u64| admitted.iter().filter(|at| (from..from + window).contains(*at)).count();
        let found = admitted.iter().map(|from| within(*from)).max().unwrap();
        assert!(found as u64 <= units && found > 0, "{found} in {most}");
    }
}

/// The slower of two buckets binds in the end, however long its period; and no window is rounded up.
#[test]
fn windows_of_any_length() {
    let run = Place::new().run(&["explain", "10/s", "400/m"]).ok();
    run.says(&["  gcra binds in windows up to 1 min 58 s, gcra-2 in longer ones\n"]);
    let run = Place::new().run(&["explain", "10/1h30s rolling-window", "100/1d"]).ok();
    run.says(&["10 in any 1 h 30 s (rolling-window)"]);
}

/// What runs in shadow bounds nothing.
#[test]
fn no_bound_without_enforcement() {
    for setting in ["shadow = true", "rollout = \"50%\""] {
        let place = Place::with_config(&format!(
            "[policies.p]\n{setting}\nlimits = [\"10/s\", \"100/m\"]\n"
        ));
        assert!(!place.run(&["explain"]).ok().stdout.contains("together,"), "{setting}");
        let json = place.run(&["explain", "--json"]).ok().json();
        assert_eq!(json["together"], serde_json::json!([]), "{setting}");
        assert_eq!(json["limits"][0]["most"], serde_json::Value::Null, "{setting}");
    }
}

/// Any white space is as good as another, with one limit and with several.
#[test]
fn white_space_of_any_kind() {
    let limits = ["replay", "--limit", "10/s\u{a0}gcra", "--limit", "5/m"];
    Place::new().run_with_input(&limits, "{\"t_us\":0}\n").ok();
}

#[test]
fn one_limit_has_no_together() {
    let run = Place::new().run(&["explain", "10/s"]).ok();
    assert!(!run.stdout.contains("together"), "{}", run.stdout);
    let run = Place::new().run(&["explain", "10/s", "5/s"]);
    run.warns("limit `gcra` never refuses: `gcra-2` is always at least as strict");
    Place::new().run(&["explain", "10/s", "5/parsec"]).fails("parsec");
}

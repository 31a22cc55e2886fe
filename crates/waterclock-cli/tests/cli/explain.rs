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

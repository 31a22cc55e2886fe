//! Made-up traffic against limits.

use serde_json::Value;

use crate::support::{Place, titles};

const SHAPES: [&str; 5] = ["steady", "poisson", "bursty", "diurnal", "herd"];

fn simulated(arguments: &[&str]) -> Value {
    let run = Place::new().run(&[&["simulate", "--json"], arguments].concat()).ok();
    run.json()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn every_algorithm_keeps_its_bound_and_every_request_is_accounted_for() {
    for shape in SHAPES {
        for seed in ["1", "2", "3", "4"] {
            let simulation = simulated(&[
                "7/s",
                "--all",
                "--arrivals",
                shape,
                "--seed",
                seed,
                "--keys",
                "3",
                "--rate",
                "60/s",
            ]);
            let subjects = simulation["subjects"].as_array().unwrap();
            assert_eq!(subjects.len(), 8);
            for subject in subjects {
                let most = &subject["most"];
                assert!(number(&most["units"]) <= number(&most["bound"]), "{shape} {seed}: {most}");
                let (requests, refused) =
                    (number(&subject["requests"]), number(&subject["refused"]));
                assert_eq!(requests, number(&subject["allowed"]) + refused);
                assert_eq!(refused, subject["refusals"].as_array().unwrap().len() as u64);
                assert!(refused > 0, "{shape}: 60 in a second are more than 7 for each of three");
                let sum = |name: &str| -> u64 {
                    subject["timeline"]["bins"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|bin| number(&bin[name]))
                        .sum()
                };
                assert_eq!(
                    (sum("offered"), sum("allowed")),
                    (requests, number(&subject["allowed"]))
                );
            }
        }
    }
}

/// What is simulated is what the engine decides: the same requests as a trace come out the same.
#[test]
fn it_says_what_a_replay_says() {
    let simulation = simulated(&["5/s", "--arrivals", "steady", "--rate", "8/s", "--for", "10s"]);
    let trace: String =
        (0..80).map(|number| format!("{{\"t_us\":{}}}\n", number * 125_000)).collect();
    let replayed = Place::with_limits("\"5/s\"").replay(&trace);
    let refused: Vec<(u64, u64)> = replayed
        .iter()
        .filter(|line| line["allowed"] == false)
        .map(|line| (number(&line["t_us"]), number(&line["retry_after_us"])))
        .collect();
    let refusals = simulation["subjects"][0]["refusals"].as_array().unwrap();
    let simulated: Vec<(u64, u64)> = refusals
        .iter()
        .map(|refusal| (number(&refusal["t_us"]), number(&refusal["retry_after_us"])))
        .collect();
    assert_eq!(simulated, refused);
    assert!(refused.len() > 20);
}

/// A client that retries after the advised wait is admitted then, if no other was faster.
#[test]
fn advice_is_honest() {
    let simulation = simulated(&[
        "10/s",
        "--arrivals",
        "herd",
        "--for",
        "60s",
        "--rate",
        "4/s",
        "--retries",
        "1000",
    ]);
    let subject = &simulation["subjects"][0];
    assert_eq!(number(&subject["given_up"]), 0);
    assert!(number(&subject["retries"]) > 0);
    let first_came = number(&subject["requests"]) - number(&subject["retries"]);
    assert_eq!(number(&subject["allowed"]), first_came, "{subject}");
}

/// Both kinds of clients are played, whichever is drawn.
#[test]
fn honouring_and_ignoring_retry_after_are_compared() {
    let of = |more: &[&str]| {
        let herd =
            ["10/s", "--arrivals", "herd", "--for", "20s", "--rate", "8/s", "--retries", "9"];
        simulated(&[&herd[..], more].concat())["subjects"][0].clone()
    };
    let (honour, ignore) = (of(&[]), of(&["--retry-after", "ignore"]));
    assert_eq!(honour["retry_after"], ignore["retry_after"]);
    for (subject, name) in [(&honour, "honour"), (&ignore, "ignore")] {
        let played = &subject["retry_after"][name];
        assert_eq!(
            (&played["attempts"], &played["allowed"], &played["given_up"]),
            (&subject["requests"], &subject["allowed"], &subject["given_up"])
        );
    }
    assert_ne!(honour["requests"], ignore["requests"]);
    assert_eq!(simulated(&["10/s"])["subjects"][0]["retry_after"], Value::Null);
}

/// Shadow limits refuse nothing, and are counted and drawn.
#[test]
fn shadow_limits_are_counted_and_drawn() {
    let place = Place::with_limits(
        "\"9/s\", { name = \"new\", algorithm = \"gcra\", limit = 2, per = \"1s\", shadow = true }",
    );
    let run = place
        .run(&["simulate", "-c", "waterclock.toml", "--for", "9s", "--json", "--plot", "p.svg"])
        .ok();
    let subject = &run.json()["subjects"][0];
    let counted = number(&subject["shadow_refused"]);
    assert!(counted > 0);
    assert_eq!(number(&subject["shadow_refused_by"]["new"]), counted);
    let svg = place.read("p.svg");
    assert!(
        svg.contains("class=\"in-shadow\" d=\"M") && svg.contains("Shadow limits would refuse")
    );
}

/// The same requests as a trace and as a log, against two limits at once.
#[test]
fn arrivals_of_a_file() {
    let (mut trace, mut log) = (String::new(), String::new());
    for number in 0..300_u64 {
        let (second, user) = (number / 10, number % 3);
        trace.push_str(&format!(
            "{{\"t_us\":{},\"key\":\"u{user}\",\"cost\":2}}\n",
            1_700_000_000_000_000 + second * 1_000_000
        ));
        log.push_str(&format!(
            "{{\"time\":{},\"user\":\"u{user}\",\"bytes\":1500}}\n",
            1_700_000_000 + second
        ));
    }
    let place = Place::new().file("trace", &trace).file("log", &log);
    let limits = ["simulate", "5/s", "5/s fixed-window", "--json", "--arrivals"];
    let traced = place.run(&[&limits[..], &["trace"]].concat()).ok();
    let flags = ["log", "--input", "jsonl", "--key", "user", "--cost", "bytes / 1000"];
    let logged = place.run(&[&limits[..], &flags[..], &["--plot", "p.svg"]].concat());
    assert_eq!(logged.code, Some(0), "{}", logged.stderr);
    assert_eq!(traced.json()["subjects"], logged.json()["subjects"]);
    assert_eq!(traced.json()["arrivals"], "300 requests by 3 keys, as in trace");
    assert!(number(&traced.json()["subjects"][0]["refused"]) > 50);
    let svg = place.read("p.svg");
    assert!(svg.contains("22:13:30"), "the axis tells the time of day");
}

/// A tier of the trace has its numbers here, too.
#[test]
fn tiers_of_a_file() {
    let config = "[policies.p]\nlimits = [\"1/h\"]\ntiers = { staff = { factor = 0 } }\n";
    let trace: String = (0..5).map(|n| format!("{{\"t_us\":{n},\"tier\":\"staff\"}}\n")).collect();
    let place =
        Place::with_config(config).file("t", &format!("{trace}{{\"t_us\":9}}\n{{\"t_us\":9}}\n"));
    let run = place.run(&["simulate", "-c", "waterclock.toml", "--arrivals", "t", "--json"]);
    assert_eq!(number(&run.json()["subjects"][0]["refused"]), 1, "{}", run.stdout);
}

/// Numbers at the edge of what there is neither panic nor wrap, and refusals by the million fit.
#[test]
fn extremes() {
    let limit = "9007199254740991/1us";
    let cost = ["--cost", "9007199254740991", "--rate", "3000/s", "--for", "3s"];
    assert!(number(&simulated(&[&[limit], &cost[..]].concat())["subjects"][0]["units"]) > 1 << 60);
    let run = Place::new().run(&["simulate", "9007199254740991/s", "--keys", "1000000"]);
    assert_eq!(run.code, Some(2));
    run.warns("more than 5000000; shorten");
    simulated(&["1000000000/s", "--all", "--rate", "10/s", "--for", "1s"]);
    let many = simulated(&["1/h", "--rate", "100000/s", "--for", "1s", "--retries", "3"]);
    assert!(many["subjects"][0]["refusals"].as_array().unwrap().len() <= 4_000);
}

#[test]
fn the_same_seed_draws_the_same_picture() {
    let place = Place::new();
    let draw = |name: &str, seed: &str| {
        place.run(&["simulate", "--seed", seed, "--for", "5s", "--plot", name]).ok();
        place.read(name)
    };
    let one = draw("one.svg", "1");
    assert_eq!(one, draw("again.svg", "1"));
    assert_ne!(one, draw("other.svg", "2"));
}

#[test]
fn pictures_and_pages_stand_alone() {
    let place = Place::with_limits(
        "\"3/s\", { algorithm = \"fixed-window\", limit = 20, per = \"10s\", name = \"hour & <all>\" }",
    );
    let run = place.run(&[
        "simulate",
        "-c",
        "waterclock.toml",
        "--for",
        "20s",
        "--plot",
        "p.svg",
        "--html",
        "p.html",
    ]);
    let (code, stderr) = (run.code, run.stderr);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let svg = place.read("p.svg");
    let titles = titles(&svg);
    assert!(
        titles.iter().any(|title| title.contains("refused by")
            && title.contains("hour & <all>")
            && title.contains("retry in")),
        "{titles:?}"
    );
    let page = place.read("p.html");
    for elsewhere in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(elsewhere) && !svg.contains(elsewhere), "{elsewhere}");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
}

/// The picture in the documentation is what the tool draws today.
#[test]
fn the_picture_of_the_readme_is_current() {
    let place = Place::new();
    let run = place.run(&[
        "simulate",
        "10/s token-bucket",
        "10/s fixed-window",
        "10/s sliding-window",
        "--for",
        "6s",
        "--seed",
        "3",
        "--plot",
        "picture.svg",
    ]);
    assert_eq!(run.code, Some(0));
    let shown = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/picture.svg");
    let drawn = place.read("picture.svg");
    assert!(
        std::fs::read_to_string(shown).unwrap() == drawn,
        "draw it again: waterclock simulate \"10/s token-bucket\" \"10/s fixed-window\" \"10/s sliding-window\" --for 6s --seed 3 --plot docs/picture.svg"
    );
}

#[test]
fn a_summary_for_people() {
    let run = Place::new().run(&["simulate", "100 per minute", "100 per minute sliding-window"]);
    assert_eq!(run.code, Some(0));
    run.says(&[
        "bursty, 150 per 1 min on average for 10 min",
        "100 per minute sliding-window",
        "bound",
        "--plot out.svg",
    ]);
    assert!(!run.stdout.contains('\u{1b}'), "no colours in pipes");
}

/// Policies of one file may make their keys of different fields; each is simulated with its own.
#[test]
fn each_policy_has_its_own_keys() {
    let log: String = (0..12)
        .map(|n| {
            format!(
                "10.0.0.{} - bob [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 9\n",
                n % 4
            )
        })
        .collect();
    let place = Place::with_config(
        "[policies.users]\nkey = [\"user\"]\nlimits = [\"2/s\"]\n\
         [policies.addresses]\nkey = [\"client_ip\"]\nlimits = [\"2/s\"]\n\
         [policies.both]\nkey = [\"client_ip\", \"user\"]\nlimits = [\"1/s\"]\n",
    )
    .file("log", &log);
    let of = ["simulate", "-c", "waterclock.toml", "--arrivals", "log", "--input", "combined"];
    let simulated = |flags: &[&str]| {
        let run = place.run(&[&of[..], &["--json"], flags].concat());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.json()
    };
    let own = simulated(&[]);
    let admitted = |simulation: &Value| -> Vec<u64> {
        let subjects = simulation["subjects"].as_array().unwrap();
        subjects.iter().map(|subject| number(&subject["allowed"])).collect()
    };
    // One user, four addresses, and four pairs of both.
    assert_eq!(admitted(&own), [2, 8, 4]);
    assert_eq!(own["arrivals"], "12 requests by one key or 4 keys, as in log");
    // The most that one key had is of one key, too, and not of the first policy's.
    let most = |place: usize| number(&own["subjects"][place]["most"]["units"]);
    assert_eq!([most(0), most(1), most(2)], [2, 2, 1]);
    for (place_of, policy) in ["users", "addresses", "both"].into_iter().enumerate() {
        let replay = ["replay", "log", "-p", policy, "--input", "combined", "--json"];
        let replayed = place.run(&replay).json();
        assert_eq!(replayed["allowed"], own["subjects"][place_of]["allowed"], "{policy}");
    }
    assert_eq!(admitted(&simulated(&["--key", "user"])), [2, 2, 1], "one key for all");
    let run = place.run(&[&of[..], &["--plot", "p.svg"]].concat());
    assert_eq!(run.code, Some(0));
    let picture = place.read("p.svg");
    assert!(picture.contains("what the busiest key of each has left"), "{picture:.2000}");
}

#[test]
fn complaints_are_sentences() {
    let place = Place::with_config(
        "policies.p.limits = [{ algorithm = \"concurrency\", limit = 3, lease = \"1s\" }]\npolicies.e.limits = [{ algorithm = \"error-rate\", threshold = \"50%\", per = \"1m\", min_samples = 5, cool_down = \"5s\" }]",
    ).file("trace", "{\"t_us\":0}\n{\"t_us\":1,\"op\":\"reset\"}\n").file("empty", "\n");
    let cases: [(&[&str], &str); 21] = [
        (&["10/parsec"], "unknown period \"parsec\""),
        (
            &["20/s leaky-bucket"],
            "`leaky-bucket` takes more than a rate; here a limit is a rate such as \"20/s\", alone or followed by gcra, fixed-window, sliding-window, rolling-window, quota or even-slots; others go into a file, which -c names\n",
        ),
        (&["10/month", "--all"], "a month is not always as long; here a limit is a rate"),
        (&["10/s", "--arrivals", "burts"], "or a file; found \"burts\"; did you mean `bursty`?"),
        (&["10/s", "--rate", "fast"], "--rate must be a rate such as"),
        (&["10/s", "--for", "ages"], "--for must be a duration"),
        (&["10/s", "--for", "1000d"], "more than 5000000; shorten --for"),
        (&["10/s", "--for", "1us", "--rate", "1/d"], "no request comes within 1 µs"),
        (&["10/s", "5/s", "--all"], "--all takes one LIMIT"),
        (&["10/s", "--keys", "0"], "--keys"),
        (&["10/s", "--cost", "bytes"], "--cost of generated requests must be a whole number"),
        (&["10/s", "--key", "user"], "--key is for access logs"),
        (&["10/s", "--input", "csv"], "name one with --arrivals"),
        (&["10/s", "--arrivals", "trace", "--rate", "5/s"], "--rate is for generated traffic"),
        (&["10/s", "--arrivals", "trace", "--seed", "5"], "--seed is for generated traffic"),
        (&["--all", "-c", "waterclock.toml"], "cannot be used with"),
        (&["10/s", "--arrivals", "trace"], "only checks can be simulated"),
        (&["10/s", "--arrivals", "empty"], "there is no request to simulate"),
        (&["-c", "none.toml"], "none.toml"),
        (&["-c", "waterclock.toml", "-p", "p"], "reserv"),
        (&["-c", "waterclock.toml", "-p", "e"], "no limit here limits a rate"),
    ];
    for (arguments, complaint) in cases {
        let run = place.run(&[&["simulate"], arguments].concat());
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        run.warns(complaint);
    }
    // What is said to be possible is, and `explain` says the same.
    for algorithm in
        ["gcra", "fixed-window", "sliding-window", "rolling-window", "quota", "even-slots"]
    {
        let run = place.run(&["simulate", &format!("20/s {algorithm}")]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    let run = place.run(&["explain", "20/s min-interval"]);
    run.warns("a rate; here a limit is a rate such as");
    // What was found out is not lost with the picture.
    let run = place.run(&["simulate", "10/s", "--plot", "no/such/place.svg"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stdout.contains("allowed") && run.stderr.contains("place.svg: cannot be written"));
}

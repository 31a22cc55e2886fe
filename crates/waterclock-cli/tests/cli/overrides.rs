//! `waterclock override`: limits of single keys, on a running server.

use crate::serve::process::Serving;
use crate::support::{Place, Run};

const CONFIG: &str = "[server]\nauth = [{ token = \"${MY_TOKEN}\", roles = [\"admin\"] }]\n\
    [policies.p]\ntiers = { pro = { factor = 0.5 } }\nlimits = [\"5/h\"]\n";

struct Scene {
    // Stopped when it is dropped.
    _serving: Serving,
    url: String,
    place: Place,
}

impl Scene {
    fn new() -> Scene {
        let start = ["serve", "-c", "waterclock.toml"];
        let place = Place::with_config(CONFIG);
        let serving = Serving::start_with(place, &start, &[("MY_TOKEN", "t0ken")]);
        let url = serving.url("http");
        Scene { _serving: serving, url, place: Place::new().file("token", "t0ken\n") }
    }

    fn run_with(&self, line: &str, input: &str) -> Run {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.extend(["--server", &self.url, "--token-file", "token"]);
        self.place.run_with_input(&words, input)
    }

    fn run(&self, line: &str) -> Run {
        self.run_with(line, "")
    }

    fn left(&self, key: &str) -> String {
        self.run(&format!("check p {key}")).stdout
    }
}

#[test]
fn set_get_list_clear() {
    let scene = Scene::new();
    let run = scene.run("override get p alice");
    assert_eq!((run.code, &*run.stdout), (Some(1), "alice has no override\n"), "{}", run.stderr);
    assert_eq!(scene.run("override list p").ok().stdout, "p has no overrides\n");
    let run = scene.run("override set p alice --limit 100/s --limit 5000/h --expires-in 2d").ok();
    assert_eq!(run.stdout, "p: alice has an override now\n");
    assert!(scene.left("alice").starts_with("allowed; 99 left"), "{}", scene.left("alice"));
    let run = scene.run("override get p alice").ok();
    assert!(run.stdout.starts_with("gcra limit 100"), "{}", run.stdout);
    assert!(run.stdout.contains(" and ") && run.stdout.contains(", for "), "{}", run.stdout);
    let json = scene.run("override get p alice --json").ok().json();
    assert_eq!(
        (&json["limits"][0]["per"], &json["limits"][1]["per"]),
        (&"1s".into(), &"1h".into())
    );

    scene.run("override set p bob --factor 0.5").ok();
    assert!(scene.left("bob").starts_with("allowed; 9 left"));
    scene.run("override set p carol --tier pro").ok();
    scene.run("override set p dave --block").ok();
    assert!(scene.left("dave").contains("blocked"));
    scene.run("override set p erin --exempt").ok();
    let table = "{\"algorithm\":\"quota\",\"limit\":7,\"per\":\"1d\"}";
    scene.run(&format!("override set p frank --limit {table}")).ok();
    let list = scene.run("override list p").ok().stdout;
    assert!(list.trim_start().starts_with("KEY"), "{list}");
    assert_eq!(list.lines().count(), 7, "{list}");
    for part in ["factor 0.5", "tier pro", "block", "exempt", "quota limit 7 per 1d"] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert_eq!(scene.run("override clear p bob").ok().stdout, "p: bob has no override any more\n");
    assert_eq!(scene.run("override clear p bob").code, Some(1));
    for (line, says) in [
        ("override set q alice --block", "there is no policy `q`"),
        ("override get q alice", "there is no policy `q`"),
        ("override list q", "there is no policy `q`"),
        ("override set p alice --factor -1", "must not be negative"),
        ("override set p alice --tier gold", "has no tier `gold`"),
        ("override set p alice", "--limit"),
        ("override set p alice --block --exempt", "cannot be used with"),
    ] {
        let run = scene.run(line);
        assert_eq!(
            (run.code, run.stderr.contains(says)),
            (Some(2), true),
            "{line}: {}",
            run.stderr
        );
    }
}

#[test]
fn what_is_listed_can_be_imported() {
    let scene = Scene::new();
    let lines: String = (0..2_500)
        .map(|n| format!("{{\"key\":\"k{n}\",\"limits\":[\"{}/h\"]}}\n", n + 1))
        .collect();
    let run = scene.run_with("override import p -", &lines).ok();
    assert_eq!(run.stdout, "2,500 set, 0 cleared, 0 failed\n");
    assert!(scene.left("k2499").starts_with("allowed; 2499 left"));
    let all = scene.run("override list p --json").ok().stdout;
    assert_eq!(all.lines().count(), 2_500);
    let run = scene.run_with("override import p -", &all).ok();
    assert_eq!(run.stdout, "2,500 set, 0 cleared, 0 failed\n");
    // Lines that fail are named, wherever they are, and the others are set.
    let mut lines = "\n{\"key\":\"k0\",\"clear\":true}\nnonsense\n".to_owned();
    lines += &"{\"key\":\"z\",\"block\":true}\n".repeat(1_200);
    lines += "{\"key\":\"y\",\"factor\":-1}";
    std::fs::write(scene.place.path("some.jsonl"), lines).unwrap();
    let run = scene.run("override import p some.jsonl");
    assert_eq!(run.code, Some(1));
    assert_eq!(run.stdout, "1,200 set, 1 cleared, 2 failed\n");
    let failed: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(failed.len(), 2, "{}", run.stderr);
    assert!(failed[0].starts_with("some.jsonl:3: "), "{}", run.stderr);
    assert!(failed[1].starts_with("some.jsonl:1204: a factor must not"), "{}", run.stderr);
    assert!(scene.left("z").contains("blocked"));
    let run = scene.run("override import p missing.jsonl");
    assert_eq!((run.code, run.stderr.contains("missing.jsonl")), (Some(2), true));
    let run = scene.place.run(&["override", "import", "p", "some.jsonl", "--server", &scene.url]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("WATERCLOCK_TOKEN"), "{}", run.stderr);
}

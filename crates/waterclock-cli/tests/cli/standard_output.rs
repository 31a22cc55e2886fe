//! Pages and pictures on standard output: alone there, so that they can be piped.

use std::path::Path;

use crate::support::{Place, titles};

fn place() -> Place {
    let trace: String = (0..9).map(|n| format!("{{\"t_us\":{n}}}\n")).collect();
    Place::with_limits("\"5/s\"")
        .file("new.toml", "[policies.p]\nlimits = [\"2/s\"]\n")
        .file("t", &trace)
}

#[test]
fn nothing_else_is_there() {
    let place = place();
    let page = ["<!doctype html>", "</html>\n"];
    let picture = ["<svg", "</svg>\n"];
    let cases: [(&[&str], i32, [&str; 2], &str); 5] = [
        (&["replay", "t", "--html", "-"], 0, page, "refused                   4"),
        (&["replay", "t", "--plot", "-"], 0, picture, "refused                   4"),
        (&["simulate", "5/s", "--html", "-"], 0, page, "longest wait"),
        (&["simulate", "5/s", "--plot", "-", "--html", "s.html"], 0, picture, "longest wait"),
        (
            &["diff", "waterclock.toml", "new.toml", "--trace", "t", "--html", "-"],
            1,
            page,
            "newly refused",
        ),
    ];
    for (arguments, code, [begins, ends], told) in cases {
        let run = place.run(arguments);
        assert_eq!(run.code, Some(code), "{arguments:?}: {}", run.stderr);
        assert!(run.stdout.starts_with(begins), "{arguments:?}: {:.200}", run.stdout);
        assert!(run.stdout.trim_end().ends_with(ends.trim_end()), "{arguments:?}");
        run.warns(told);
        if begins == "<svg" {
            assert!(!titles(&run.stdout).is_empty());
        }
    }
    assert!(!Path::new(&place.path("-")).exists());
    assert!(Path::new(&place.path("s.html")).exists());
}

/// What goes there is what goes into a file.
#[test]
fn the_same_as_in_a_file() {
    let place = place();
    let run = place.run(&["replay", "t", "--html", "r.html"]);
    assert!(run.stdout.contains("refused                   4") && run.stderr.is_empty());
    let file = place.read("r.html");
    assert_eq!(place.run(&["replay", "t", "--html", "-"]).stdout, file);
}

#[test]
fn two_things_cannot_go_there() {
    let place = place();
    let cases: [(&[&str], &str); 4] = [
        (&["replay", "t", "--plot", "-", "--html", "-"], "--plot and --html"),
        (&["replay", "t", "--html", "-", "--format", "json"], "--html and --json"),
        (&["simulate", "5/s", "--plot", "-", "--json"], "--plot and --json"),
        (
            &["diff", "waterclock.toml", "new.toml", "--trace", "t", "--html", "-", "--json"],
            "--html and --json",
        ),
    ];
    for (arguments, flags) in cases {
        let run = place.run(arguments);
        let said = format!("{flags} cannot both go to standard output; name a file instead of -\n");
        assert_eq!((run.code, run.stdout.as_str(), run.stderr), (Some(2), "", said));
    }
}

//! The page about the command line: its examples do what it says, and it knows every command.

use std::path::Path;
use std::process::Command;

use crate::serve::process::Serving;
use crate::support::Place;
use crate::words::commands;

const PAGE: &str = include_str!("../../../../docs/command-line.md");
/// Stands for anything, within a line; on a line of its own, for any lines.
const ANYTHING: &str = "…";

/// The blocks of one language.
fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    PAGE.split(&*opening).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Commands with what they print.
fn examples() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut examples: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in blocks("console").into_iter().flat_map(str::lines) {
        match (line.strip_prefix("$ "), examples.last_mut()) {
            (Some(command), _) => examples.push((command, Vec::new())),
            (None, Some((_, said))) => said.push(line),
            (None, None) => panic!("output before the first command: {line}"),
        }
    }
    examples
}

/// Whether a line is what the page says, with anything where the page leaves something out.
fn is_line(expected: &str, line: &str) -> bool {
    let mut parts = expected.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut last = first;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        (rest, last) = (&rest[at + part.len()..], part);
    }
    rest.is_empty() || (expected.contains(ANYTHING) && (last.is_empty() || line.ends_with(last)))
}

fn are_lines(expected: &[&str], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.is_empty(),
        Some((&ANYTHING, rest)) => (0..=lines.len()).any(|skip| are_lines(rest, &lines[skip..])),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, others)| is_line(first, line) && are_lines(rest, others)),
    }
}

#[test]
fn every_example_does_what_it_says() {
    let place = Place::with_config(blocks("toml")[0]);
    let serving = Serving::start(Place::with_config(blocks("toml")[0]));
    let http = serving.http.to_string();
    let [web, grpc, resp] = ["http", "grpc", "resp"].map(|face| serving.url(face));
    let real = [web, grpc, resp, http];
    let written = [
        "http://127.0.0.1:8080",
        "grpc://127.0.0.1:8081",
        "redis://127.0.0.1:6380",
        "127.0.0.1:8080",
    ];
    let swap = |text: &str, from: &[&str], to: &[&str]| {
        from.iter().zip(to).fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    let real: Vec<&str> = real.iter().map(String::as_str).collect();
    let binary = Path::new(env!("CARGO_BIN_EXE_waterclock")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let examples = examples();
    assert!(examples.len() > 15, "{}", examples.len());
    for (command, expected) in examples {
        // An example that does not end must not stop the tests.
        let mut shell = Command::new("timeout");
        shell.args(["60", "sh", "-c", &format!("exec 2>&1; {}", swap(command, &written, &real))]);
        shell.env("PATH", &path).env_remove("WATERCLOCK_TOKEN").current_dir(place.path("."));
        let output = shell.output().unwrap();
        let said = swap(&String::from_utf8_lossy(&output.stdout), &real, &written);
        let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
        assert!(are_lines(&expected, &lines), "{command}\n{}\n{said}", expected.join("\n"));
    }
}

#[test]
fn it_knows_every_command_and_invents_no_flag() {
    for command in commands() {
        assert!(PAGE.contains(&format!("\n## waterclock {command}\n")), "{command}");
    }
    let mut help: String =
        commands().iter().map(|command| Place::new().run(&[command, "--help"]).stdout).collect();
    for part in ["set", "get", "list", "import", "clear"] {
        help += &Place::new().run(&["override", part, "--help"]).stdout;
    }
    help += &Place::new().run(&["import", "redis-cell", "--help"]).stdout;
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    // Flags of cargo are none of ours.
    for line in PAGE.lines().filter(|line| !line.contains("cargo ")) {
        for (at, _) in line.match_indices(" --").chain(line.match_indices("`--")) {
            let flag = line[at + 1..].split(|letter| !is_letter(letter)).next().unwrap();
            assert!(help.contains(flag), "{flag}: {line}");
        }
    }
}

#[test]
fn something_left_out_is_something() {
    assert!(
        is_line("a…c", "abc") && is_line("a…", "abc") && is_line("…", "") && is_line("abc", "abc")
    );
    assert!(!is_line("abc", "abcd") && !is_line("a…c", "abd") && !is_line("a…c…", "ab"));
    assert!(are_lines(&["a", "…", "c"], &["a", "b", "b", "c"]));
    assert!(!are_lines(&["a", "…", "c"], &["a", "b"]) && !are_lines(&["a"], &["a", "b"]));
}

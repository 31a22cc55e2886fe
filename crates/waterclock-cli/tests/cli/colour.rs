//! Colours: on terminals, unless they are not wanted; never in pipes, never in JSON.

use crate::support::Place;
use crate::terminal::Terminal;

const ESCAPE: char = '\u{1b}';

fn place() -> Place {
    Place::with_limits("\"5/s\", \"9/s fixed-window\"")
}

/// What commands print, in colours where there are any.
const COMMANDS: [&[&str]; 7] = [
    &["explain", "5/s"],
    &["validate"],
    &["check", "p", "alice"],
    &["check", "p", "alice", "--cost", "99"],
    &["--help"],
    &["check", "--help"],
    &["check", "--nonsense"],
];

fn on_a_terminal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut terminal = Terminal::run(place(), arguments, environment);
    assert!(terminal.ended().is_some());
    terminal.raw()
}

#[test]
fn on_a_terminal_there_are_some() {
    for arguments in COMMANDS {
        let said = on_a_terminal(arguments, &[]);
        assert!(said.contains(ESCAPE), "{arguments:?}: {said}");
    }
}

#[test]
fn unless_they_are_not_wanted() {
    for arguments in COMMANDS {
        let said = on_a_terminal(arguments, &[("NO_COLOR", "1")]);
        assert!(!said.contains(ESCAPE), "{arguments:?}: {said:?}");
        assert!(!said.is_empty(), "{arguments:?}");
    }
}

#[test]
fn pipes_get_none() {
    for arguments in COMMANDS {
        let run = place().run(arguments);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(!said.contains(ESCAPE) && !said.is_empty(), "{arguments:?}: {said:?}");
    }
}

#[test]
fn json_gets_none_either() {
    for arguments in [&["explain", "5/s"][..], &["check", "p", "k"], &["schema"]] {
        let said = on_a_terminal(&[arguments, &["--json"]].concat(), &[]);
        assert!(said.starts_with('{') && !said.contains(ESCAPE), "{arguments:?}: {said:?}");
    }
}

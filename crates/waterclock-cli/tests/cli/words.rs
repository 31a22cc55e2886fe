//! Completions and manual pages: every command and every flag, in languages that others read.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::{Place, Run};

fn run(arguments: &[&str]) -> Run {
    Place::new().run(arguments).ok()
}

/// The commands, as `--help` lists them.
pub(crate) fn commands() -> Vec<String> {
    let help = run(&["--help"]).stdout;
    let list = help.split_once("Commands:\n").unwrap().1.split("\n\n").next().unwrap();
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    names.filter(|name| name != "help").collect()
}

/// The commands of `waterclock override` and `waterclock import`, which have pages of their own.
const NESTED: usize = 6;

/// The long flags of a command, as `--help` lists them.
fn flags(command: &str) -> Vec<String> {
    let help = run(&[command, "--help"]).stdout;
    let long = |line: &str| {
        let line = line.trim_start();
        let at = if line.starts_with("--") { 0 } else { line.find(", --")? + 2 };
        (line.starts_with('-')).then(|| line[at..].split_whitespace().next().map(str::to_owned))?
    };
    help.lines().filter_map(long).collect()
}

/// Whatever a program says to a text on its standard input.
fn tell(program: &str, arguments: &[&str], text: &str) -> Option<Run> {
    let mut command = Command::new(program);
    command.args(arguments).env("MANWIDTH", "200").env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take()?.write_all(text.as_bytes()).ok()?;
    Some(Run::from(child.wait_with_output().ok()?))
}

#[test]
fn there_are_commands_and_flags_to_look_for() {
    let commands = commands();
    assert!(commands.len() >= 9, "{commands:?}");
    assert!(flags("check").contains(&"--cost".to_owned()), "{:?}", flags("check"));
}

/// The long flags that a shell's script offers after a command; nothing if it does not know the command.
fn offered(shell: &str, script: &str, command: &str) -> Option<BTreeSet<String>> {
    // The command's part of the script, and what stands before the name of a flag there.
    let (begin, end, before) = match shell {
        "bash" => (format!(" waterclock__subcmd__{command})\n"), "\n            if ", " --"),
        "zsh" => (format!("({command})\n_arguments "), "\n;;\n", "\n'--"),
        "fish" => (format!("using_subcommand {command}\" "), "\n\n", " -l "),
        "powershell" => (format!(" 'waterclock;{command}' {{\n"), "\n        }", "::new('--"),
        _ => (format!("&'waterclock;{command}'= {{\n"), "\n        }", "cand --"),
    };
    let part = script.split_once(&begin)?.1.split(end).next()?;
    let part = match shell {
        // Flags that exclude others name these first, in parentheses; some may be given again.
        "zsh" => part.lines().map(|line| format!("\n'{}", after_others(line))).collect(),
        // Every line begins anew, and says its meaning last.
        "fish" => {
            let lines = script.lines().filter_map(|line| line.split_once(&begin));
            lines.map(|(_, rest)| format!(" {}", rest.split(" -d ").next().unwrap())).collect()
        }
        _ => part.to_owned(),
    };
    let is_name = |character: &char| character.is_ascii_alphanumeric() || *character == '-';
    let name = |text: &str| text.chars().take_while(is_name).collect::<String>();
    Some(part.split(before).skip(1).map(|text| format!("--{}", name(text))).collect())
}

fn after_others(line: &str) -> &str {
    let line = line.trim_start_matches('\'').trim_start_matches('*');
    match line.strip_prefix('(').and_then(|others| others.split_once(')')) {
        Some((_, rest)) => rest.trim_start_matches('*'),
        None => line,
    }
}

#[test]
fn every_shell_knows_every_command_and_flag() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]).stdout;
        // Commands of commands stand elsewhere in scripts.
        for word in ["expires-in", "exempt", "factor", "redis-cell", "dry-run", "from"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let is_plain = |command: &String| !["override", "import"].contains(&command.as_str());
        for command in commands().into_iter().filter(is_plain) {
            let flags: BTreeSet<String> = flags(&command).into_iter().collect();
            assert_eq!(offered(shell, &script, &command), Some(flags), "{shell}: {command}");
        }
        assert_eq!(offered(shell, &script, "dance"), None, "{shell}");
    }
}

#[test]
fn shells_that_are_here_can_read_it() {
    for shell in ["bash", "zsh"] {
        let script = run(&["completions", shell]).stdout;
        if let Some(read) = tell(shell, &["-n"], &script) {
            assert_eq!((read.code, read.stderr.as_str()), (Some(0), ""), "{shell}");
        }
    }
}

#[test]
fn bash_completes_with_it() {
    let script = run(&["completions", "bash"]).stdout;
    let complete = "COMP_WORDS=(waterclock check --j); COMP_CWORD=2; _waterclock waterclock --j check; echo \"${COMPREPLY[@]}\"";
    let completed = tell("bash", &[], &format!("{script}\n{complete}\n")).expect("bash");
    assert_eq!(completed.stdout, "--json\n", "{}", completed.stderr);
}

#[test]
fn completions_as_json_and_for_an_unknown_shell() {
    let said = run(&["completions", "fish", "--json"]).json();
    assert_eq!(said["shell"], "fish");
    assert!(said["script"].as_str().unwrap().contains("complete -c waterclock"));
    let unknown = Place::new().run(&["completions", "tcsh"]);
    assert_eq!(unknown.code, Some(2));
    unknown.warns("'tcsh'");
}

#[test]
fn a_page_for_every_command() {
    let place = Place::new();
    let run = place.run(&["man", "--dir", "deep/man1"]).ok();
    assert_eq!(run.stdout.lines().count(), 1 + commands().len() + NESTED);
    run.says(&["waterclock-override-set.1\n", "waterclock-import-redis-cell.1\n"]);
    for command in commands() {
        let page =
            std::fs::read_to_string(place.path(&format!("deep/man1/waterclock-{command}.1")));
        let page = page.unwrap_or_else(|error| panic!("{command}: {error}"));
        for flag in flags(&command) {
            let flag = flag.replace('-', "\\-");
            assert!(page.contains(&flag), "{command}: {flag}");
        }
    }
}

#[test]
fn pages_that_man_renders() {
    let said = run(&["man", "--json"]).json();
    let pages = said["pages"].as_array().unwrap();
    assert_eq!(pages.len(), 1 + commands().len() + NESTED);
    assert_eq!(pages[0]["text"], run(&["man"]).stdout);
    for page in pages {
        let (name, text) = (page["name"].as_str().unwrap(), page["text"].as_str().unwrap());
        assert!(text.contains(".SH NAME") && text.contains("waterclock 0."), "{name}");
        if let Some(shown) = tell("man", &["--warnings", "-l", "-"], text) {
            assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{name}");
            assert!(shown.stdout.contains("SYNOPSIS"), "{name}: {}", shown.stdout);
        }
    }
    let whole = run(&["man"]).stdout;
    for command in commands() {
        assert!(whole.contains(&format!("waterclock\\-{command}(1)")), "{command}");
    }
}

#[test]
fn a_directory_that_cannot_be_written() {
    let place = Place::new().file("file", "");
    let run = place.run(&["man", "--dir", "file/man1"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.starts_with("file/man1: cannot be written: "), "{}", run.stderr);
}

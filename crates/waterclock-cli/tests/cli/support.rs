//! A directory of its own for every test, and the binary run inside it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// What a run of the binary left behind.
pub(crate) struct Run {
    /// The command line, for failing tests.
    command: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The run, which must have succeeded without a word on standard error.
    #[track_caller]
    pub(crate) fn ok(self) -> Run {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.command);
        self
    }

    /// Asserts that standard output contains all of this.
    #[track_caller]
    pub(crate) fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.stdout.contains(part), "{}: {part}\n{}", self.command, self.stdout);
        }
    }

    /// Asserts that standard error contains this.
    #[track_caller]
    pub(crate) fn warns(&self, part: &str) {
        assert!(self.stderr.contains(part), "{}: {part}\n{}", self.command, self.stderr);
    }

    /// Asserts that it failed with one line on standard error that contains this, and nothing on standard output.
    #[track_caller]
    pub(crate) fn fails(&self, part: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "{}", self.command);
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        self.warns(part);
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            command: String::new(),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A fresh directory with files in it.
pub(crate) struct Place {
    directory: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("place-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).unwrap();
        Place { directory }
    }

    /// A place whose `waterclock.toml` holds this text.
    pub(crate) fn with_config(text: &str) -> Place {
        Place::new().file("waterclock.toml", text)
    }

    /// A place with one policy `p` of these limits.
    pub(crate) fn with_limits(limits: &str) -> Place {
        Place::with_config(&format!("[policies.p]\nlimits = [{limits}]\n"))
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Place {
        self.file_of_bytes(name, text.as_bytes())
    }

    pub(crate) fn file_of_bytes(self, name: &str, bytes: &[u8]) -> Place {
        std::fs::write(self.directory.join(name), bytes).unwrap();
        self
    }

    /// The absolute path of a file.
    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// The text of a file.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.join(name)).unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.run_with_input(arguments, "")
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &str) -> Run {
        self.run_with_bytes(arguments, input.as_bytes())
    }

    pub(crate) fn run_with_bytes(&self, arguments: &[&str], input: &[u8]) -> Run {
        finish(&mut self.command(arguments), input)
    }

    /// A run with more in its environment.
    pub(crate) fn run_with(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Run {
        finish(self.command(arguments).envs(environment.iter().copied()), b"")
    }

    /// The binary, about to start in this place with all its ends in our hands.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_waterclock"));
        command
            .args(arguments)
            .current_dir(&self.directory)
            // The machine may have a store of its own configured.
            .env_remove("WATERCLOCK_STORE_URL")
            .env_remove("WATERCLOCK_TOKEN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The lines of a replay that must succeed.
    pub(crate) fn replay(&self, trace: &str) -> Vec<Value> {
        self.run_with_input(&["replay", "--policy", "p", "--format", "jsonl"], trace).ok().lines()
    }
}

fn finish(command: &mut Command, input: &[u8]) -> Run {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // The child may well stop reading at a bad line, before all is written.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run { command: format!("{command:?}"), ..Run::from(output) }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A table of cases: the lines of an input, then `=> ` and what is expected.
pub(crate) fn cases(table: &str) -> Vec<(String, &str)> {
    let (mut cases, mut input) = (Vec::new(), Vec::new());
    for line in table.lines().skip(1) {
        match line.strip_prefix("=> ") {
            Some(expected) => cases.push((std::mem::take(&mut input).join("\n"), expected)),
            None => input.push(line),
        }
    }
    cases
}

/// Runs a command to its end: its output, and the most memory it took, in KiB.
#[cfg(target_os = "linux")]
pub(crate) fn measured(command: &mut Command) -> (Output, u64) {
    let child = command.spawn().unwrap();
    let id = child.id();
    let reader = std::thread::spawn(move || child.wait_with_output().unwrap());
    let peak = || -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        status.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok()
        })
    };
    let mut most = 0;
    while !reader.is_finished() {
        most = most.max(peak().unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    (reader.join().unwrap(), most)
}

/// What a picture says when it is pointed at. It must be well-formed.
pub(crate) fn titles(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let is_title = |node: &roxmltree::Node<'_, '_>| node.tag_name().name() == "title";
    let text = |node: roxmltree::Node<'_, '_>| node.text().map(str::to_owned);
    document.descendants().filter(is_title).filter_map(text).collect()
}

//! Configurations and counts of other rate limiters.

mod cell;
mod envoy;
mod express;
mod flexible;
mod hostile;
mod limitador;
mod misskey;
mod recognition;
mod sharkey;

use crate::support::{Place, Run};

/// The result of an import of one file, which must be a valid configuration.
struct Imported {
    place: Place,
    text: String,
    /// What was said on standard error.
    warnings: Vec<String>,
}

impl Imported {
    #[track_caller]
    fn new(format: &str, file: &str) -> Imported {
        let place = Place::new().file("limits", file);
        let run = place.run(&["import", "limits", "--from", format]);
        assert_eq!(run.code, Some(0), "{}\n{file}", run.stderr);
        let warnings: Vec<String> = run
            .stderr
            .lines()
            .map(|line| line.strip_prefix("warning: ").unwrap_or(line).to_owned())
            .collect();
        // What is said is also written down.
        for warning in &warnings {
            assert!(run.stdout.contains(&format!("# {warning}.\n")), "{warning}\n{}", run.stdout);
        }
        let place = place.file("waterclock.toml", &run.stdout);
        let valid = place.run(&["validate"]);
        assert_eq!(valid.code, Some(0), "{}\n{}", valid.stderr, run.stdout);
        Imported { place, text: run.stdout, warnings }
    }

    /// Which of these checks of one key pass: the microsecond and the cost of each.
    fn admits(&self, policy: &str, checks: &[(u64, u64)]) -> Vec<bool> {
        let trace: String = checks
            .iter()
            .map(|(at, cost)| format!("{{\"t_us\":{at},\"key\":\"k\",\"cost\":{cost}}}\n"))
            .collect();
        let arguments = ["replay", "--policy", policy, "--format", "jsonl"];
        let run = self.place.run_with_input(&arguments, &trace);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.lines().iter().map(|line| line["allowed"].as_bool().unwrap()).collect()
    }

    #[track_caller]
    fn has(&self, lines: &[&str]) {
        for line in lines {
            assert!(self.text.lines().any(|found| found == *line), "{line}\n{}", self.text);
        }
    }

    #[track_caller]
    fn warns(&self, warnings: &[&str]) {
        assert_eq!(self.warnings, warnings);
    }
}

/// An import that must fail.
fn failed(format: &str, file: &str) -> Run {
    let run = Place::new().file("limits", file).run(&["import", "limits", "--from", format]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{file}");
    run
}

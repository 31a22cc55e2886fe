//! The pages of `replay --html`, `diff --html` and `simulate --html` in a real browser, read from a file.

mod advised;
mod clients;
mod compared;
mod curve;
mod fixture;
mod hostile;
mod looks;
mod picture;
mod simulated;
mod timeline;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use waterclock_conformance::real::await_that;
use waterclock_rehearse::report::page;

use crate::browser::Browser;

/// A page that a browser shows.
struct Shown {
    browser: Browser,
    folder: TempDir,
}

impl Shown {
    #[track_caller]
    fn new(html: &str) -> Self {
        let folder = TempDir::with_prefix("waterclock-report-").expect("a folder can be made");
        fs::write(folder.path().join("page.html"), html).expect("a folder of ours");
        let browser = Browser::open(&format!("file://{}/page.html", folder.path().display()));
        Self { browser, folder }
    }

    /// The page of a report with something in every section.
    #[track_caller]
    fn report() -> Self {
        let shown = Self::new(&page(&fixture::report()));
        shown.browser.await_text("#timeline .caption", "each bar is");
        shown
    }

    /// The number in a row of the box beside the pointer.
    #[track_caller]
    fn told(&self, label: &str) -> u64 {
        let script = "const found = [...document.querySelectorAll('.tip:not([hidden]) span')] \
            .find((span) => span.textContent === arguments[0]); \
            return found ? found.nextElementSibling.textContent : ''";
        let text = self.browser.run(script, &[json!(label)]);
        text.as_str().unwrap_or_default().replace(',', "").parse().unwrap_or(0)
    }

    /// The first and the last bin that are shown.
    #[track_caller]
    fn caption(&self) -> String {
        self.browser.text("#timeline .caption")
    }

    #[track_caller]
    fn attribute(&self, selector: &str, name: &str) -> String {
        let script = "return document.querySelector(arguments[0]).getAttribute(arguments[1]) ?? ''";
        let value = self.browser.run(script, &[json!(selector), json!(name)]);
        value.as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    fn focus(&self, selector: &str) {
        self.browser.run("document.querySelector(arguments[0]).focus()", &[json!(selector)]);
    }

    /// As wide as a telephone.
    #[track_caller]
    fn narrow(&self) {
        let size = json!({ "width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": true });
        self.browser.chromium("Emulation.setDeviceMetricsOverride", &size);
        let widths =
            || self.browser.run("return [document.documentElement.scrollWidth, innerWidth]", &[]);
        await_that("it is narrow", || widths() == json!([400, 400]));
    }

    /// The page logged no errors, nothing that the security policy stopped, and asked for nothing but itself.
    #[track_caller]
    fn ends_well(self) {
        assert_eq!(self.browser.complaints(), Vec::<String>::new());
        let own = format!("file://{}/page.html", self.folder.path().display());
        let elsewhere = |url: &String| *url != own && url != "data:,";
        let requested: Vec<String> =
            self.browser.requested().into_iter().filter(elsewhere).collect();
        assert_eq!(requested, Vec::<String>::new());
    }
}

/// Runs `waterclock` in a folder with these files; what it wrote to `page.html` there.
#[track_caller]
fn written_by(arguments: &[&str], files: &[(&str, &str)]) -> String {
    let folder = TempDir::with_prefix("waterclock-report-").expect("a folder can be made");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a folder of ours");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_waterclock"))
        .args(arguments)
        .args(["--html", "page.html"])
        .current_dir(folder.path())
        .output()
        .expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let path: &Path = &folder.path().join("page.html");
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"))
}

/// A number of the fixture, summed over all bins.
fn sum(report: &Value, field: &str) -> u64 {
    let bins = report["timeline"]["bins"].as_array().expect("bins");
    bins.iter().map(|bin| bin[field].as_u64().unwrap_or(0)).sum()
}

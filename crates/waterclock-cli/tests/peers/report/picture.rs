//! The pictures of the pages in the documentation, drawn again by
//! `cargo test -p waterclock-cli --features peers --test peers -- --ignored report::picture`.

use std::fs;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::compared::compared;
use super::fixture::{OLD, access_log};
use super::{Shown, written_by};

#[test]
#[ignore = "draws pictures"]
fn picture() {
    let log = access_log();
    let files = [("waterclock.toml", OLD), ("access.log", &*log)];
    let arguments = ["replay", "access.log", "--input", "combined"];
    for (name, page, height) in
        [("report.png", written_by(&arguments, &files), 1_330), ("diff.png", compared(&log), 1_330)]
    {
        let shown = Shown::new(&page);
        let zone = json!({ "timezoneId": "UTC" });
        shown.browser.chromium("Emulation.setTimezoneOverride", &zone);
        shown.browser.reload();
        shown.browser.await_text("#timeline .caption", "each bar is");
        shown.draw(name, height);
        shown.ends_well();
    }
}

impl Shown {
    /// Writes the top of the page to a file of the documentation.
    fn draw(&self, name: &str, height: u16) {
        let clip = json!({ "x": 0, "y": 0, "width": 1265, "height": height, "scale": 1 });
        let wish = json!({ "clip": clip, "captureBeyondViewport": true });
        let drawn = self.browser.chromium("Page.captureScreenshot", &wish);
        let png =
            BASE64_STANDARD.decode(drawn["data"].as_str().expect("a picture")).expect("base64");
        let file = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        fs::write(file, png).expect("the repository can be written");
    }
}

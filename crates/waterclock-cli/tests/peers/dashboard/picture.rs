//! The pictures of the dashboard in the documentation, drawn again by
//! `cargo test -p waterclock-cli --features peers --test peers -- --ignored picture`.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::Scene;
use super::traffic::{Traffic, check_by_http};
use crate::browser::Browser;
use crate::server::Server;

const POLICIES: &str = r#"
[server]
show_keys = true

[policies.api]
limits = [{ name = "burst", algorithm = "gcra", limit = 300, per = "1m", capacity = 20 }]

[policies.login]
key = ["client_ip", "user"]
rollout = "50%"
block = ["192.0.2.0/24"]
limits = [{ name = "minute", algorithm = "sliding-window", limit = 10, per = "1m" }]

[policies.search]
shadow = true
limits = [{ name = "hourly", algorithm = "rolling-window", limit = 50, per = "1h" }]
"#;

/// As long as the chart.
const SHOWN: Duration = Duration::from_secs(125);

#[test]
#[ignore = "draws a picture, which takes two minutes"]
fn picture() {
    let server = Server::start_with(POLICIES, Vec::new());
    let browser = Browser::open(&format!("http://127.0.0.1:{}/", server.http));
    let scene = Scene { browser, server };
    let port = scene.server.http;
    #[allow(clippy::disallowed_methods, reason = "traffic changes in real time")]
    let start = Instant::now();
    // Users by the dozen, more of them at some times than at others; guesses at a password; and one scraper, now and then.
    let users = move || {
        let wave = (start.elapsed().as_secs_f64() / 9.0).sin();
        let key = format!("user-{}", fastrand::u8(..40));
        check_by_http(port, "api", &key);
        if fastrand::u8(..3) == 0 {
            check_by_http(port, "search", &format!("user-{}", fastrand::u8(..3)));
        }
        thread::sleep(Duration::from_secs_f64(0.012 * (1.6 - wave)));
    };
    let guesses = move || {
        let user = ["admin", "root", "bob"][fastrand::usize(..3)];
        let length = user.len();
        check_by_http(port, "login", &format!("11:203.0.113.9,{length}:{user},"));
        thread::sleep(Duration::from_millis(400));
    };
    let scraper = move || {
        if start.elapsed().as_secs() % 40 > 24 {
            check_by_http(port, "api", "198.51.100.23");
        }
        thread::sleep(Duration::from_millis(15));
    };
    let traffic = Traffic::start(vec![
        Box::new(users),
        Box::new(users),
        Box::new(guesses),
        Box::new(scraper),
    ]);
    thread::sleep(SHOWN);
    scene.draw("dashboard.png", 760);
    scene.browser.run("location.hash = '#/policies/api'", &[]);
    scene.browser.await_text("#policy-refused", "198.51.100.23");
    scene.draw("policy-page.png", 860);
    drop(traffic);
    scene.ends_well();
}

impl Scene {
    /// Writes the top of the page to a file of the documentation.
    fn draw(&self, name: &str, height: u16) {
        let clip = json!({ "x": 0, "y": 0, "width": 1265, "height": height, "scale": 1 });
        let drawn = self.browser.chromium("Page.captureScreenshot", &json!({ "clip": clip }));
        let png =
            BASE64_STANDARD.decode(drawn["data"].as_str().expect("a picture")).expect("base64");
        let file = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        fs::write(file, png).expect("the repository can be written");
    }
}

//! The dashboard in a real browser, with a real server behind it.

mod administering;
mod hostile;
pub(crate) mod looks;
mod pages;
mod picture;
mod playing;
mod traffic;
mod watching;

use serde_json::Value;

use crate::browser::Browser;
use crate::server::Server;

/// Policies to test with: a budget that refills during a test, one that does not, a key made of fields, and limits
/// without units.
const POLICIES: &str = r#"
[policies.slow]
headers = "ietf"
limits = [{ name = "burst", algorithm = "gcra", limit = 1, per = "4s", capacity = 5 }]

[policies.rare]
block = ["mallory"]
limits = [{ name = "daily", algorithm = "gcra", limit = 5, per = "1d" }]

[policies.usage]
limits = [
  { name = "requests", algorithm = "gcra", limit = 5, per = "1d" },
  { name = "tokens", algorithm = "gcra", limit = 1000, per = "1d", unit = "tokens" },
]

[policies.login]
key = ["client_ip", "user"]
limits = ["3/h"]

[policies.spaced]
limits = [{ name = "gap", algorithm = "min-interval", every = "1h" }]

[policies.trips]
limits = [{ name = "failures", algorithm = "error-rate", threshold = "50%", per = "1h", min_samples = 1, cool_down = "1h" }]

[policies.watched]
shadow = true
limits = ["1/h"]

[policies.vast]
limits = [{ name = "a-limit-with-a-rather-long-name", algorithm = "fixed-window", limit = 999_999, per = "300d" }]

[policies.open]
limits = ["1000000/s"]
"#;

/// A server, and a page that shows it.
struct Scene {
    // Dropped before the server: an open page would log errors.
    browser: Browser,
    server: Server,
}

impl Scene {
    #[track_caller]
    fn new() -> Self {
        Self::with("", Vec::new())
    }

    /// With more at the beginning of the configuration, and in the environment.
    #[track_caller]
    fn with(more: &str, environment: Vec<(String, String)>) -> Self {
        let server = Server::start_with(&format!("{more}{POLICIES}"), environment);
        let browser = Browser::open(&format!("http://127.0.0.1:{}/", server.http));
        Self { browser, server }
    }

    /// Waits until the feed is there, and with it the policies to choose from.
    #[track_caller]
    fn live(self) -> Self {
        self.browser.await_text("#connection", "Live");
        self.browser.await_text("#policy", "slow");
        self
    }

    /// Chooses a policy and a key in the playground.
    #[track_caller]
    fn about(&self, policy: &str, key: &str) {
        self.browser.choose("#policy", policy);
        self.browser.fill("#key-fields input[name=key]", key);
    }

    /// Sends one check and waits for the verdict.
    #[track_caller]
    fn check(&self) -> String {
        self.forget("#verdict");
        self.browser.click("#fire");
        self.browser.await_text("#verdict", ".");
        self.browser.text("#verdict")
    }

    /// Performs an action of the administration on the key.
    #[track_caller]
    fn administer(&self, action: &str) -> String {
        self.forget("#admin-result");
        self.browser.click(&format!("[data-do={action}]"));
        self.browser.await_text("#admin-result", ".");
        self.browser.text("#admin-result")
    }

    /// Makes the page believe that it is hidden, or visible again.
    #[track_caller]
    fn hide(&self, is_hidden: bool) {
        let script = "const [isHidden] = arguments; \
            Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden }); \
            document.dispatchEvent(new Event('visibilitychange'))";
        self.browser.run(script, &[is_hidden.into()]);
    }

    fn forget(&self, selector: &str) {
        let script = "document.querySelector(arguments[0]).textContent = ''";
        self.browser.run(script, &[Value::from(selector)]);
    }

    /// The page logged no errors, and the server stops cleanly.
    #[track_caller]
    fn ends_well(self) {
        assert_eq!(self.browser.complaints(), Vec::<String>::new());
        drop(self.browser);
        self.server.stop();
    }
}

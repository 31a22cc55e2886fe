//! A real Chromium without a window, driven by ChromeDriver as the WebDriver protocol says.

use serde_json::{Value, json};
use tempfile::TempDir;
use waterclock_conformance::real::{await_that, free_port};

use crate::background::Background;
use crate::installed::program;
use crate::webdriver::{call, try_call};

/// The key under which WebDriver names elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys that have no letter, as WebDriver spells them.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const SHIFT: &str = "\u{e008}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const SPACE: &str = " ";
pub(crate) const DOWN: &str = "\u{e015}";
pub(crate) const RIGHT: &str = "\u{e014}";
pub(crate) const END: &str = "\u{e010}";
pub(crate) const HOME: &str = "\u{e011}";
pub(crate) const ESCAPE: &str = "\u{e00c}";

/// What Chromium is started with: nothing that talks to hosts of its own accord, and no page that thinks no user
/// looks at it because the machine is busy.
const ARGUMENTS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--window-size=1280,1400",
];

/// A browser with one page open. It is closed when this is dropped.
pub(crate) struct Browser {
    port: u16,
    session: String,
    // After the session has ended, and before its folder is removed.
    _driver: Background,
    _folder: TempDir,
}

impl Browser {
    /// Starts a browser and opens a page.
    #[track_caller]
    pub(crate) fn open(url: &str) -> Self {
        let folder = TempDir::with_prefix("waterclock-browser-").expect("a folder can be made");
        let port = free_port();
        let mut command = program("chromedriver");
        command.arg(format!("--port={port}"));
        let driver = Background::start(&mut command, folder.path(), port);
        let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
        let chromium = program("chromium").get_program().to_string_lossy().into_owned();
        let arguments: Vec<&str> = ARGUMENTS.into_iter().chain([&*profile]).collect();
        let wish = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "binary": chromium, "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        } } });
        let made = call(port, "POST", "/session", &wish);
        let session = made["sessionId"].as_str().expect("a session has an id").to_owned();
        let browser = Self { port, session, _driver: driver, _folder: folder };
        browser.command("POST", "/url", &json!({ "url": url }));
        browser
    }

    #[track_caller]
    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        call(self.port, method, &format!("/session/{}{path}", self.session), body)
    }

    /// Opens a page in one more tab, which is the one that is looked at from now on.
    #[track_caller]
    pub(crate) fn open_tab(&self, url: &str) {
        let tab = self.command("POST", "/window/new", &json!({ "type": "tab" }));
        self.command("POST", "/window", &json!({ "handle": tab["handle"] }));
        self.command("POST", "/url", &json!({ "url": url }));
    }

    /// Runs the body of a function in the page, and waits for what it promises.
    #[track_caller]
    pub(crate) fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// The text of an element as it is shown.
    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let text =
            self.run("return document.querySelector(arguments[0])?.innerText", &[json!(selector)]);
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Whether an element is there to be seen.
    #[track_caller]
    pub(crate) fn is_shown(&self, selector: &str) -> bool {
        let script = "return document.querySelector(arguments[0])?.checkVisibility() ?? false";
        self.run(script, &[json!(selector)]) == true
    }

    /// The first number in the text of an element; none yet is 0.
    #[track_caller]
    pub(crate) fn number(&self, selector: &str) -> f64 {
        let text = self.text(selector).replace(',', "");
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let digits = text.split(|c| !is_number(c)).find(|part| !part.is_empty());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0.0)
    }

    /// Waits until an element's text holds this.
    #[track_caller]
    pub(crate) fn await_text(&self, selector: &str, part: &str) {
        await_that(&format!("{selector} shows {part:?}"), || self.text(selector).contains(part));
    }

    #[track_caller]
    fn element(&self, selector: &str) -> String {
        let wish = json!({ "using": "css selector", "value": selector });
        let found = self.command("POST", "/element", &wish);
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no {selector}")).to_owned()
    }

    /// Clicks as a person does: it must be visible, and nothing may lie over it.
    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.command("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types into an input, in the place of what is there.
    #[track_caller]
    pub(crate) fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.command("POST", &format!("/element/{element}/clear"), &json!({}));
        self.command("POST", &format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Chooses an option by its text.
    #[track_caller]
    pub(crate) fn choose(&self, selector: &str, option: &str) {
        let script = "const [selector, text] = arguments; \
            const select = document.querySelector(selector); select.value = text; \
            select.dispatchEvent(new Event('change', { bubbles: true })); return select.value";
        assert_eq!(self.run(script, &[json!(selector), json!(option)]), option);
    }

    /// Presses keys one after the other, wherever the focus is.
    #[track_caller]
    pub(crate) fn press(&self, keys: &[&str]) {
        let stroke = |key: &&str| {
            [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
        };
        let strokes: Vec<Value> = keys.iter().flat_map(stroke).collect();
        self.act(&strokes);
    }

    /// Presses Tab with Shift held.
    #[track_caller]
    pub(crate) fn press_shift_tab(&self) {
        let stroke = |kind: &str, key: &str| json!({ "type": kind, "value": key });
        self.act(&[
            stroke("keyDown", SHIFT),
            stroke("keyDown", TAB),
            stroke("keyUp", TAB),
            stroke("keyUp", SHIFT),
        ]);
    }

    #[track_caller]
    fn act(&self, strokes: &[Value]) {
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.command("POST", "/actions", &json!({ "actions": [keyboard] }));
    }

    /// Moves the pointer over an element, to a part of its width.
    #[track_caller]
    pub(crate) fn point(&self, selector: &str, part: f64) {
        let over = self.over(selector, part);
        self.act_with_pointer(&[over]);
    }

    /// Drags from one part of an element's width to another.
    #[track_caller]
    pub(crate) fn drag(&self, selector: &str, from: f64, until: f64) {
        let (from, until) = (self.over(selector, from), self.over(selector, until));
        let button = |kind: &str| json!({ "type": kind, "button": 0 });
        self.act_with_pointer(&[from, button("pointerDown"), until, button("pointerUp")]);
    }

    /// A move to a part of an element's width.
    #[track_caller]
    fn over(&self, selector: &str, part: f64) -> Value {
        let script = "const e = document.querySelector(arguments[0]); e.scrollIntoView({ block: 'center' }); \
            const { left, top, width, height } = e.getBoundingClientRect(); \
            return [Math.round(left + width * arguments[1]), Math.round(top + height / 2)]";
        let place = self.run(script, &[json!(selector), json!(part)]);
        json!({ "type": "pointerMove", "duration": 50, "x": place[0], "y": place[1], "origin": "viewport" })
    }

    #[track_caller]
    fn act_with_pointer(&self, moves: &[Value]) {
        let mouse = json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": moves });
        self.command("POST", "/actions", &json!({ "actions": [mouse] }));
    }

    /// Loads the page again.
    #[track_caller]
    pub(crate) fn reload(&self) {
        self.command("POST", "/refresh", &json!({}));
    }

    /// The id, or else the name or text, of what has the focus.
    #[track_caller]
    pub(crate) fn focused(&self) -> String {
        let script =
            "const e = document.activeElement; return e.id || e.name || e.textContent.trim()";
        self.run(script, &[]).as_str().unwrap_or_default().to_owned()
    }

    /// A command of Chromium's own.
    #[track_caller]
    pub(crate) fn chromium(&self, command: &str, parameters: &Value) -> Value {
        self.command("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Pretends that the person prefers something, such as a colour scheme.
    #[track_caller]
    pub(crate) fn prefer(&self, feature: &str, value: &str) {
        let features = json!([{ "name": feature, "value": value }]);
        self.chromium("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// What the page complained of since this was asked last: errors of scripts, and what the content
    /// security policy has stopped. Statuses of answers are no errors of the page.
    #[track_caller]
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", &json!({ "type": "browser" }));
        let lines = log.as_array().cloned().unwrap_or_default();
        let is_ours = |line: &&Value| line["source"] != "network" && line["level"] != "DEBUG";
        lines.iter().filter(is_ours).map(Value::to_string).collect()
    }

    /// Where requests went since this was asked last, but for the pages that the browser itself is made of.
    #[track_caller]
    pub(crate) fn requested(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", &json!({ "type": "performance" }));
        let lines = log.as_array().cloned().unwrap_or_default();
        let request = |line: &Value| {
            let message: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let event = &message["message"];
            let url = &event["params"]["request"]["url"];
            if event["params"]["documentURL"].as_str()?.starts_with("chrome://") {
                return None;
            }
            (event["method"] == "Network.requestWillBeSent")
                .then(|| url.as_str().map(str::to_owned))?
        };
        lines.iter().filter_map(request).collect()
    }
}

impl Drop for Browser {
    /// The driver would leave the browser behind when it is killed.
    fn drop(&mut self) {
        _ = try_call(self.port, "DELETE", &format!("/session/{}", self.session), &json!({}));
    }
}

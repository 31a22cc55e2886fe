//! Servers without sockets, in a runtime of one thread.

use tokio::runtime::{Builder, Runtime};
use waterclock_config::Config;
use waterclock_server::fuzzing::Faces;
use waterclock_server::observe::Face;

/// Rare refills: the time that a run takes changes no answer but in its times.
pub const POLICIES: &str = r#"
[store]
max_keys = 1000

[policies.p]
headers = "ietf"
limits = [{ name = "one", algorithm = "gcra", limit = 5, per = "365d" }]

[policies.several]
headers = "draft-03"
limits = ["5/365d", "100/365d sliding-window"]

[policies.legacy]
headers = "legacy"
limits = ["2/365d"]

[policies.login]
key = ["client_ip", "user"]
mode = "partial"
limits = ["3/365d"]

[policies.tokens]
limits = [
  { name = "calls", algorithm = "gcra", limit = 10, per = "365d" },
  { name = "tokens", algorithm = "gcra", limit = 100, per = "365d", unit = "tokens" },
]

[policies.paid]
tiers = { pro = { factor = 0.5 } }
limits = ["1/365d"]

[policies.list]
block = ["blocked"]
exempt = ["exempt"]
limits = ["1/365d"]

[policies.hidden]
shadow = true
limits = ["1/365d"]

[[rules]]
domain = "d"
descriptor = [{ key = "user" }]
policy = "p"

[[rules]]
domain = "d"
descriptor = [{ key = "path", value = "/api/*" }, { key = "user" }]
policy = "several"

[[rules]]
domain = "d"
descriptor = [{ key = "tokens" }]
policy = "tokens"

[[rules]]
domain = "d"
descriptor = [{ key = "bot" }]
refuse = true

[[rules]]
domain = "d"
descriptor = [{ key = "user" }, { key = "method", value = "POST" }]
match = "contains"
key = ["user"]
policy = "legacy"
"#;

/// The policies above, and that of `CL.THROTTLE`.
pub const NAMES: [&str; 9] =
    ["p", "several", "legacy", "login", "tokens", "paid", "list", "hidden", "@throttle"];

/// A server, and the runtime for its methods.
pub struct Scene {
    pub runtime: Runtime,
    pub faces: Faces,
}

impl Scene {
    /// With the policies above, for a client of this face.
    pub fn new(face: Face) -> Scene {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let config = Config::read("fuzz.toml", POLICIES).expect("valid");
        let faces = runtime.block_on(Faces::new(&config, face)).expect("starts");
        Scene { runtime, faces }
    }

    /// Forgets what was spent, so that each run is alone.
    pub fn forget(&self) {
        self.faces.forget(&NAMES);
    }
}

/// A text with `#` in place of each number that has so many digits, times above all.
pub fn without_numbers(text: &[u8], digits: usize) -> Vec<u8> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || b".-".contains(byte);
    let mut masked = Vec::with_capacity(text.len());
    for run in text.chunk_by(|a, b| is_digit(a) == is_digit(b)) {
        match run {
            [first, ..] if is_digit(first) && run.len() >= digits => masked.push(b'#'),
            run => masked.extend_from_slice(run),
        }
    }
    masked
}

/// A message as gRPC sends it: not compressed, and with its length.
pub fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[0], &length[..], message].concat()
}

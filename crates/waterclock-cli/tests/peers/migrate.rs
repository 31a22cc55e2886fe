//! The pages of `docs/migrate`, run as a reader would run them.
//!
//! A fenced block with `file=NAME` in its first line is written into a folder of the page's own, one with `run` is run
//! there by `sh -eu`, and one with `output` right behind it is what that prints; a line that ends in `…` goes on anyhow.
//! `waterclock.toml` is served. Rust blocks are documentation tests of `waterclock-http`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use waterclock_conformance::real::RedisServer;

use crate::installed::peer_path;
use crate::script;
use crate::server::Server;

/// The value of `WATERCLOCK_TOKEN` in the blocks of a page, and its digest.
const TOKEN: &str = "a-token-for-this-page";
const TOKEN_SHA256: &str = "f5d873dec5e6aca6729c7c83ff45b893c3dd927ec9bd6843ea745e1652f65b58";

/// Where no file is served: something to ask.
const DEMONSTRATION: &str = "[policies.demo]\nlimits = [\"30/m\"]\n";

macro_rules! pages {
    ($($name:ident $page:literal)*) => {
        $(
            #[test]
            fn $name() {
                Page::read($page).run();
            }
        )*

        #[test]
        fn every_page_is_run() {
            let mut pages: Vec<String> = fs::read_dir(folder())
                .expect("the repository has docs/migrate")
                .map(|entry| entry.expect("a readable folder").file_name().into_string().unwrap())
                .filter(|name| name != "README.md")
                .collect();
            pages.sort();
            assert_eq!(pages, [$($page),*]);
        }
    };
}

pages! {
    envoy "envoy.md"
    express_rate_limit "express-rate-limit.md"
    governor "governor.md"
    limitador "limitador.md"
    misskey_sharkey "misskey-sharkey.md"
    rate_limiter_flexible "rate-limiter-flexible.md"
    rate_limiter "rate-limiter.md"
    redis_cell "redis-cell.md"
    rolling_rate_limiter "rolling-rate-limiter.md"
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn folder() -> PathBuf {
    repository().join("docs/migrate")
}

/// A fenced block.
struct Block {
    /// What stands behind the backticks: a language and words for this test.
    info: Vec<String>,
    text: String,
}

impl Block {
    fn has(&self, word: &str) -> bool {
        self.info.iter().skip(1).any(|one| one == word)
    }

    fn file(&self) -> Option<&str> {
        self.info.iter().skip(1).find_map(|word| word.strip_prefix("file="))
    }
}

struct Page {
    name: &'static str,
    blocks: Vec<Block>,
}

impl Page {
    fn read(name: &'static str) -> Self {
        let text = fs::read_to_string(folder().join(name)).unwrap();
        let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
        for line in text.lines() {
            match (line.strip_prefix("```"), &mut open) {
                (Some(info), None) => {
                    let info = info.split_whitespace().map(str::to_owned).collect();
                    open = Some(Block { info, text: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{name}: a block has no end");
        Self { name, blocks }
    }

    fn mentions(&self, word: &str) -> bool {
        self.blocks.iter().any(|block| block.text.contains(word))
    }

    fn run(&self) {
        let place = TempDir::with_prefix("waterclock-page-").expect("a folder can be made");
        let server = Server::start_with(&self.configuration(), Vec::new());
        let redis = self.mentions("REDIS_URL").then(RedisServer::start);
        link_node_packages(place.path());
        let (mut ran, mut printed) = (0, None);
        for block in &self.blocks {
            let is_known = |word: &String| {
                ["run", "output"].contains(&word.as_str()) || word.starts_with("file=")
            };
            let words = &block.info[1.min(block.info.len())..];
            assert!(words.iter().all(is_known), "{}: what is {words:?}?", self.name);
            if let Some(file) = block.file() {
                fs::write(place.path().join(file), &block.text).expect("a folder of ours");
            } else if block.has("run") {
                let mut shell = Command::new("sh");
                shell.args(["-euc", &block.text]).current_dir(place.path());
                shell.env("PATH", path_with_peers()).env("NO_COLOR", "1");
                shell.env("WATERCLOCK_URL", format!("http://127.0.0.1:{}", server.http));
                shell.env("WATERCLOCK_RESP_URL", format!("redis://127.0.0.1:{}", server.resp));
                shell.env("WATERCLOCK_GRPC", format!("127.0.0.1:{}", server.grpc));
                shell.env("WATERCLOCK_TOKEN", TOKEN);
                if let Some(redis) = &redis {
                    shell.env("REDIS_URL", redis.url());
                }
                printed = Some(script::run(&mut shell));
                ran += 1;
            } else if block.has("output") {
                let printed = printed.take().expect("output stands behind what is run");
                assert!(matches(&block.text, &printed), "{}: it printed\n{printed}", self.name);
            }
        }
        let is_rust = |block: &Block| block.info.first().is_some_and(|language| language == "rust");
        assert!(ran > 0 || self.blocks.iter().any(is_rust), "{} runs nothing", self.name);
        server.stop();
    }

    /// The page's own configuration. Where the page uses a token, the server knows it.
    fn configuration(&self) -> String {
        let own = self.blocks.iter().find(|block| block.file() == Some("waterclock.toml"));
        let text = own.map_or(DEMONSTRATION, |block| &block.text);
        if !self.mentions("WATERCLOCK_TOKEN") || text.contains("auth =") {
            return text.to_owned();
        }
        let auth = format!("auth = [{{ token = \"sha256:{TOKEN_SHA256}\", roles = [\"admin\"] }}]");
        match text.split_once("[server]\n") {
            Some((before, after)) => format!("{before}[server]\n{auth}\n{after}"),
            None => format!("{text}\n[server]\n{auth}\n"),
        }
    }
}

/// `waterclock`, `node` and `python` before all others.
fn path_with_peers() -> OsString {
    let waterclock = Path::new(env!("CARGO_BIN_EXE_waterclock")).parent().expect("a folder");
    let first = [waterclock.to_owned(), peer_path("."), peer_path("python/bin")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(first.into_iter().chain(std::env::split_paths(&path))).expect("a path")
}

/// The client and the packages that it is tested with, as `npm install` would put them there.
fn link_node_packages(place: &Path) {
    let client = repository().join("clients/node").canonicalize().expect("the client's folder");
    assert!(client.join("dist").exists(), "clients/node is not built: run scripts/peers");
    let packages = place.join("node_modules");
    fs::create_dir(&packages).expect("a folder of ours");
    for package in fs::read_dir(client.join("node_modules")).expect("run scripts/peers") {
        let package = package.expect("a readable folder");
        symlink(package.path(), packages.join(package.file_name())).expect("a folder of ours");
    }
    symlink(&client, packages.join("waterclock")).expect("the package has another name");
}

fn matches(expected: &str, printed: &str) -> bool {
    let is_same = |(expected, printed): (&str, &str)| match expected.strip_suffix('…') {
        Some(start) => printed.starts_with(start),
        None => printed == expected,
    };
    expected.lines().count() == printed.lines().count()
        && expected.lines().zip(printed.lines()).all(is_same)
}

//! Limiters for Node.js, asked by `node/peers.mjs` in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Answer, Contestant, Enter, Entrant};
use crate::remote::Error;
use crate::remote::drive::{Keys, Load, Seen};
use crate::remote::quota::{Quota, WIDE};

pub const FLEXIBLE: &str = "flexible";

/// What each is called in `--only`, in the registry and in tables, and what it does.
const PEERS: [[&str; 4]; 4] = [
    [
        FLEXIBLE,
        "rate-limiter-flexible",
        "rate-limiter-flexible 11.4 (Node)",
        "fixed window, a script",
    ],
    [
        "rolling",
        "rolling-rate-limiter",
        "rolling-rate-limiter 0.4 (Node)",
        "rolling window, a set of all calls, fetched whole",
    ],
    ["ratelimiter", "ratelimiter", "ratelimiter 3.4 (Node)", "rolling window, a set of all calls"],
    ["multi", "redis-rate-limiter", "redis-rate-limiter 1.2 (Node)", "fixed window, MULTI"],
];

/// `directory`: where the packages are installed, or why they are not.
pub fn contestants(directory: &Result<PathBuf, String>) -> Vec<Contestant> {
    let contestant = |[id, package, name, how]: [&'static str; 4]| {
        let enter = directory.clone().map(|directory| enter(package, directory));
        Contestant { id, name, how, enter }
    };
    let mut all: Vec<Contestant> = PEERS.into_iter().map(contestant).collect();
    all.push(Contestant {
        id: "risingstack",
        name: "@risingstack/rate-limiter (Node)",
        how: "rolling window in cells, a script",
        enter: Err("not available from the registries".to_owned()),
    });
    all
}

fn enter(peer: &'static str, directory: PathBuf) -> Enter {
    Box::new(move |port| {
        let directory = directory.clone();
        Box::pin(async move {
            let mut node = Node::start(peer, port, &directory)?;
            node.ask(json!({ "ask": "open", "quota": WIDE })).await?;
            Ok(Box::new(node) as Box<dyn Entrant>)
        })
    })
}

struct Node {
    /// Ends the process when this is dropped.
    _process: Child,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Node {
    fn start(peer: &str, port: u16, directory: &Path) -> Result<Self, Error> {
        let mut command = Command::new("node");
        command.arg("peers.mjs").arg(peer).arg(port.to_string()).current_dir(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let questions = process.stdin.take().ok_or("no way to ask")?;
        let answers = process.stdout.take().ok_or("no way to be answered")?;
        Ok(Self { _process: process, questions, answers: BufReader::new(answers).lines() })
    }

    async fn ask(&mut self, question: Value) -> Result<Value, Error> {
        self.questions.write_all(format!("{question}\n").as_bytes()).await?;
        let answer = self.answers.next_line().await?.ok_or("node ended early")?;
        Ok(serde_json::from_str(&answer)?)
    }

    async fn seen(&mut self, question: Value) -> Result<Seen, Error> {
        Ok(serde_json::from_value(self.ask(question).await?)?)
    }
}

impl Entrant for Node {
    fn fill(&mut self, keys: u64, callers: usize) -> Answer<'_, u64> {
        Box::pin(async move {
            let question = json!({ "ask": "fill", "keys": keys, "callers": callers });
            Ok(self.seen(question).await?.admitted)
        })
    }

    fn drive<'a>(&'a mut self, load: &'a Load) -> Answer<'a, Seen> {
        Box::pin(async move {
            let Keys::Drawn(keys, _) = load.keys else {
                return Err("only keys that come again".into());
            };
            let millis = load.time.as_millis() as u64;
            let question =
                json!({ "ask": "drive", "keys": keys, "callers": load.callers, "millis": millis });
            self.seen(question).await
        })
    }

    fn crowd(&mut self, callers: usize, quota: Quota) -> Answer<'_, u64> {
        Box::pin(async move {
            let question = json!({ "ask": "crowd", "callers": callers, "quota": quota });
            Ok(self.seen(question).await?.admitted)
        })
    }
}

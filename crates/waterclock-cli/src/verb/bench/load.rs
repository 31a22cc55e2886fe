//! The load, read from the arguments.

use std::time::Duration;

use fastrand::Rng;
use waterclock::Cost;
use waterclock_config::{Micros, nearest_first, quoted};
use waterclock_server::observe::Face;

use super::Bench;
use crate::output::Failure;
use crate::server::{Server, ServerAddress};

/// The policy of the demonstration.
const DEMO: &str = "demo";
/// How long it runs by default.
const DEFAULT: Duration = Duration::from_secs(5);
/// How long it runs at most.
pub(super) const LONGEST: Duration = Duration::from_secs(3_600);
/// Replaced by the key in a descriptor's value.
pub(super) const KEY: &str = "{key}";

/// A face by its usual name.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Protocol {
    Http,
    Grpc,
    Redis,
}

/// The whole load.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) server: Server,
    pub(super) policy: String,
    /// Whether the arguments name the policy.
    pub(super) names_policy: bool,
    pub(super) keys: u64,
    /// None for the usual cost.
    pub(super) cost: Option<Cost>,
    pub(super) connections: u64,
    /// Checks that go out at once on a connection.
    pub(super) at_once: u64,
    pub(super) domain: String,
    /// Names and values, in which the key may be mentioned.
    pub(super) descriptor: Vec<(String, String)>,
    pub(super) rate: Option<u64>,
    pub(super) duration: Duration,
    pub(super) requests: Option<u64>,
    pub(super) is_remote: bool,
}

impl Load {
    pub(super) fn new(asked: &Bench) -> Result<Load, Failure> {
        let address = address(&asked.url, asked.face)?;
        misplaced(asked, address.face)?;
        let descriptor = asked.descriptor.iter().map(|entry| entry_of(entry));
        Ok(Load {
            server: Server::new(address, &asked.access)?,
            policy: asked.policy.clone().unwrap_or_else(|| DEMO.to_owned()),
            names_policy: asked.policy.is_some(),
            keys: asked.keys,
            cost: asked.cost.clone(),
            connections: asked.connections,
            at_once: asked.pipeline.max(asked.batch),
            domain: asked.domain.clone().unwrap_or_default(),
            descriptor: descriptor.collect::<Result<_, _>>()?,
            rate: asked.rate,
            duration: duration(asked)?,
            requests: asked.requests,
            is_remote: asked.remote,
        })
    }

    /// Chooses the only policy of the server, if the arguments name none. Where it cannot be asked, the name stays.
    pub(super) async fn choose_policy(&mut self) -> Result<(), Failure> {
        if self.names_policy {
            return Ok(());
        }
        let Some(names) = self.server.policies().await else { return Ok(()) };
        match &*names {
            [] => Ok(()),
            names if names.contains(&self.policy) => Ok(()),
            [only] => {
                self.policy.clone_from(only);
                Ok(())
            }
            names => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let (address, list) = (&self.server.address, nearest_first("", &names));
                Err(format!("{address}: choose one of the policies {list} with --policy").into())
            }
        }
    }

    /// How many requests go out at once: checks of one HTTP request are one request.
    pub(super) fn requests_at_once(&self) -> u64 {
        if self.server.address.face == Face::Http { 1 } else { self.at_once }
    }

    /// One line, for the head of a report.
    pub(super) fn title(&self) -> String {
        let what = match self.server.address.face {
            Face::Grpc => format!("domain {}", self.domain),
            _ => format!("policy {}", self.policy),
        };
        let plural = |count: u64, word: &str| {
            if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
        };
        let mut parts =
            vec![what, plural(self.keys, "key"), plural(self.connections, "connection")];
        match (self.at_once, self.server.address.face) {
            (1, _) => {}
            (many, Face::Http) => parts.push(format!("{many} checks per request")),
            (many, _) => parts.push(format!("{many} checks at once on each")),
        }
        if let Some(rate) = self.rate {
            parts.push(format!("{rate} due per second"));
        }
        format!("{}: {}", self.server.address, parts.join(", "))
    }
}

fn address(url: &str, protocol: Option<Protocol>) -> Result<ServerAddress, String> {
    let Some(protocol) = protocol else { return ServerAddress::parse(url) };
    let (scheme, face) = match protocol {
        Protocol::Http => ("http", Face::Http),
        Protocol::Grpc => ("grpc", Face::Grpc),
        Protocol::Redis => ("redis", Face::Resp),
    };
    let Some((given, _)) = url.split_once("://") else {
        return ServerAddress::parse(&format!("{scheme}://{url}"));
    };
    match ServerAddress::parse(url)? {
        address if address.face == face => Ok(address),
        _ => Err(format!(
            "--face {scheme} contradicts {}; leave one of them out",
            quoted(&format!("{given}://"))
        )),
    }
}

/// An error for flags that have no effect on this protocol.
fn misplaced(asked: &Bench, face: Face) -> Result<(), String> {
    let wrong = [
        (asked.pipeline > 1 && face != Face::Resp, "--pipeline is for the Redis protocol"),
        (asked.batch > 1 && face != Face::Http, "--batch is for HTTP"),
        (
            face == Face::Grpc && asked.cost.as_ref().is_some_and(|cost| cost.plain().is_none()),
            "--cost of gRPC is one number",
        ),
        (asked.domain.is_some() && face != Face::Grpc, "--domain is for gRPC"),
        (!asked.descriptor.is_empty() && face != Face::Grpc, "--descriptor is for gRPC"),
        (
            face == Face::Grpc && (asked.domain.is_none() || asked.descriptor.is_empty()),
            "gRPC asks about descriptors: name one with --domain and --descriptor",
        ),
    ];
    match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, sentence)) => Err((*sentence).to_owned()),
        None => Ok(()),
    }
}

fn entry_of(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!(
            "--descriptor must be NAME=VALUE, such as user={KEY}; found {}",
            quoted(text)
        )),
    }
}

fn duration(asked: &Bench) -> Result<Duration, String> {
    let Some(text) = &asked.duration else {
        return Ok(if asked.requests.is_some() { LONGEST } else { DEFAULT });
    };
    let micros = Micros::parse(text).map_err(|problem| format!("--duration {problem}"))?;
    if micros.duration() > LONGEST {
        return Err(format!("--duration must be at most 1h; found {}", quoted(text)));
    }
    Ok(micros.duration())
}

/// Any of so many keys, each as likely as the others; the same sequence in every run.
pub(super) struct Keys {
    random: Rng,
    many: u64,
}

impl Keys {
    pub(super) fn new(many: u64, connection: u64) -> Keys {
        Keys { random: Rng::with_seed(connection), many }
    }

    /// The next one's number.
    pub(super) fn next(&mut self) -> u64 {
        self.random.u64(0..self.many.max(1))
    }

    /// The next one's name.
    pub(super) fn next_name(&mut self) -> String {
        format!("bench-{}", self.next())
    }
}

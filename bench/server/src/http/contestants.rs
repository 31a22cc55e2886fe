//! The HTTP contestants and their requests.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::request::{get, post, post_as};
use super::response::Admits;
use crate::contestant::Contestant;
use crate::install::Installed;
use crate::keys::{NARROW, Quota, WIDE, drawn};
use crate::process::Launch;
use crate::role::Peer;
use crate::waterclock::{NARROW_POLICY, WIDE_POLICY, serving};

pub const FLOOR: &str = "axum 204, the floor";
pub const NGINX: &str = "nginx limit_req";
pub const CHECK: &str = "waterclock /v1/check";
pub const AUTHORIZE: &str = "waterclock /v1/authorize";
pub const THROTTLECRAB: &str = "throttlecrab";
pub const LIMITADOR: &str = "limitador behind axum";

/// How many checks there are in a request.
pub const BATCHES: [usize; 2] = [16, 64];

pub fn batch(each: usize) -> String {
    format!("waterclock /v1/check, {each} at a time")
}

/// What a contestant is asked.
pub struct Asks {
    /// Everything passes.
    pub wide: Arc<[Vec<u8>]>,
    /// Passes twice.
    pub narrow: Option<Vec<u8>>,
    pub admits: Arc<Admits>,
}

/// How many different requests there are.
const REQUESTS: usize = 1 << 13;

impl Asks {
    /// `ask`: a request about a key, under the wide or the narrow policy.
    fn new(admits: Admits, ask: impl Fn(&str, bool) -> Vec<u8>) -> Self {
        let wide = drawn(REQUESTS).iter().map(|key| ask(key, false)).collect();
        Self { wide, narrow: Some(ask("twice", true)), admits: Arc::new(admits) }
    }
}

/// The application without a limiter.
pub fn floor(installed: &Installed) -> Contestant<Asks> {
    let wide = drawn(REQUESTS).iter().map(|key| post_to_app(key, false)).collect();
    let asks = Asks { wide, narrow: None, admits: Arc::new(Admits::ByStatus) };
    Contestant { name: FLOOR.to_owned(), launch: Ok(Peer::Floor.launch(&installed.itself)), asks }
}

/// The same application behind a layer.
pub fn layered(name: &str, peer: Peer, installed: &Installed) -> Contestant<Asks> {
    let asks = Asks::new(Admits::ByStatus, post_to_app);
    Contestant { name: name.to_owned(), launch: Ok(peer.launch(&installed.itself)), asks }
}

pub fn all(installed: &Installed) -> Vec<Contestant<Asks>> {
    let contestant = |name: &str, launch, asks| Contestant { name: name.to_owned(), launch, asks };
    let ours = || Ok(serving(installed.waterclock.clone(), "http"));
    let built_in = |peer: Peer| Ok(peer.launch(&installed.itself));
    let nginx = installed.nginx.as_ref().map(|program| nginx(program)).map_err(String::clone);
    let throttlecrab =
        installed.throttlecrab.as_ref().map(|program| throttlecrab(program)).map_err(String::clone);
    let mut all = vec![
        floor(installed),
        contestant(
            NGINX,
            nginx,
            Asks::new(Admits::ByStatus, |key, narrow| {
                get(&format!("/{}?key={key}", policy(narrow)))
            }),
        ),
        contestant(
            CHECK,
            ours(),
            Asks::new(Admits::ByStatus, |key, narrow| post("/v1/check", &line(key, narrow))),
        ),
        contestant(
            AUTHORIZE,
            ours(),
            Asks::new(Admits::ByStatus, |key, narrow| {
                get(&format!("/v1/authorize?policy={}&key={key}", policy(narrow)))
            }),
        ),
        contestant(THROTTLECRAB, throttlecrab, throttlecrab_asks()),
        contestant(
            LIMITADOR,
            built_in(Peer::LimitadorHttp),
            Asks::new(Admits::ByStatus, |key, narrow| {
                let namespace = policy(narrow);
                let body = format!(
                    r#"{{"namespace":"{namespace}","values":{{"user":"{key}"}},"delta":1}}"#
                );
                post("/check_and_report", &body)
            }),
        ),
    ];
    all.extend(BATCHES.map(|each| contestant(&batch(each), ours(), batches_of(each))));
    all
}

fn policy(narrow: bool) -> &'static str {
    if narrow { NARROW_POLICY } else { WIDE_POLICY }
}

fn line(key: &str, narrow: bool) -> String {
    format!(r#"{{"policy":"{}","key":"{key}"}}"#, policy(narrow))
}

fn post_to_app(key: &str, narrow: bool) -> Vec<u8> {
    post_as(key, if narrow { "/narrow" } else { "/" }, &line(key, narrow))
}

/// Every line of an answer says once what was granted.
fn batches_of(each: usize) -> Asks {
    let request = |keys: &[String]| {
        let lines: Vec<String> = keys.iter().map(|key| line(key, false)).collect();
        post("/v1/check", &format!(r#"{{"checks":[{}],"atomic":false}}"#, lines.join(",")))
    };
    let wide = drawn(REQUESTS * 2).chunks(each).map(request).collect();
    let admits = Arc::new(Admits::BySaying(br#""granted":1,"#, each));
    Asks { wide, narrow: None, admits }
}

fn throttlecrab_asks() -> Asks {
    Asks::new(Admits::BySaying(br#""allowed":true"#, 1), |key, narrow| {
        let Quota { limit, seconds } = if narrow { NARROW } else { WIDE };
        let body = format!(
            r#"{{"key":"{key}","max_burst":{limit},"count_per_period":{limit},"period":{seconds}}}"#
        );
        post("/throttle", &body)
    })
}

fn throttlecrab(program: &Path) -> Launch {
    let program = program.to_owned();
    Box::new(move |port, _| {
        let mut command = Command::new(&program);
        command.args(["--http", "--http-host", "127.0.0.1", "--http-port", &port.to_string()]);
        Ok(command)
    })
}

/// One process without a master, which is what one worker does its work in.
fn nginx(program: &Path) -> Launch {
    let program = program.to_owned();
    Box::new(move |port, directory| {
        let here = directory.display().to_string();
        let text = include_str!("nginx.conf").replace("PORT", &port.to_string());
        let file = directory.join("nginx.conf");
        fs::write(&file, text.replace("HERE", &here))?;
        let mut command = Command::new(&program);
        command.arg("-p").arg(directory).arg("-c").arg(file).args(["-e", "stderr"]);
        Ok(command)
    })
}

//! A client of one server over one of its faces.

mod grpc;
mod http;
mod resp;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::grpc::Grpc;
pub(crate) use self::http::Http;
use self::resp::Resp;
use crate::history::{History, Took};
use crate::server::Server;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Face {
    Http,
    Grpc,
    Resp,
}

pub(crate) const FACES: [Face; 3] = [Face::Http, Face::Grpc, Face::Resp];

/// Why there is no decision. Complaints show it.
#[derive(Debug)]
#[expect(dead_code, reason = "is printed")]
pub(crate) enum Miss {
    /// The server said that it has none.
    Said(String),
    /// There is no such reservation.
    Unknown,
    /// The connection ended, or there was none.
    Broken(String),
    /// Nothing came in time.
    Silent,
}

/// What counts of a decision.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) granted: u64,
    pub(crate) source: String,
}

impl Decision {
    fn of(json: &Value) -> Self {
        Self {
            granted: json["granted"].as_u64().unwrap_or_default(),
            source: json["source"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

/// What to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold<'a> {
    pub(crate) policy: &'a str,
    pub(crate) key: &'a str,
    pub(crate) cost: u64,
    pub(crate) id: &'a str,
    pub(crate) ttl: Duration,
    pub(crate) release: bool,
}

/// A connection of any face.
enum Wire {
    Http(Http),
    Grpc(Box<Grpc>),
    Resp(Resp),
}

/// Connects when it has to, and notes every call that got no answer without a reason.
pub(crate) struct Caller {
    server: Arc<Server>,
    face: Face,
    history: Arc<History>,
    /// With the life of the server that it was opened to.
    wire: Option<(Wire, u64)>,
}

impl Caller {
    pub(crate) fn new(server: &Arc<Server>, face: Face, history: &Arc<History>) -> Self {
        Self { server: Arc::clone(server), face, history: Arc::clone(history), wire: None }
    }

    pub(crate) fn check(&mut self, policy: &str, key: &str, cost: u64) -> Result<Decision, Miss> {
        self.call("check", |wire| match wire {
            Wire::Http(http) => http.check(policy, key, cost),
            Wire::Grpc(grpc) => grpc.check(policy, key, cost),
            Wire::Resp(resp) => resp.check(policy, key, cost),
        })
    }

    pub(crate) fn wait(
        &mut self,
        policy: &str,
        key: &str,
        within: Duration,
    ) -> Result<Decision, Miss> {
        self.call("wait", |wire| match wire {
            Wire::Http(http) => http.wait(policy, key, within),
            Wire::Grpc(grpc) => grpc.wait(policy, key, within),
            Wire::Resp(resp) => resp.wait(policy, key, within),
        })
    }

    /// Whether it is held; `false` is a refusal.
    pub(crate) fn reserve(&mut self, hold: Hold<'_>) -> Result<bool, Miss> {
        self.call("reserve", |wire| match wire {
            Wire::Http(http) => http.reserve(hold),
            Wire::Grpc(grpc) => grpc.reserve(hold),
            Wire::Resp(resp) => resp.reserve(hold),
        })
    }

    /// Commits what was used, or cancels.
    pub(crate) fn settle(&mut self, id: &str, used: Option<u64>) -> Result<(), Miss> {
        self.call("settle", |wire| match wire {
            Wire::Http(http) => http.settle(id, used),
            Wire::Grpc(grpc) => grpc.settle(id, used),
            Wire::Resp(resp) => resp.settle(id, used),
        })
    }

    fn call<T>(
        &mut self,
        what: &'static str,
        ask: impl FnOnce(&mut Wire) -> Result<T, Miss>,
    ) -> Result<T, Miss> {
        let asked = self.history.now();
        let (life, was_down) = self.server.life();
        let (mut wire, opened) = match self.wire.take() {
            Some(open) => open,
            None => match self.connect() {
                Ok(wire) => (wire, life),
                Err(miss) => return Err(self.missed(what, miss, life, was_down)),
            },
        };
        let said = ask(&mut wire);
        match said {
            Err(miss @ (Miss::Broken(_) | Miss::Silent)) => {
                Err(self.missed(what, miss, opened, was_down))
            }
            said => {
                self.wire = Some((wire, opened));
                let lasted = self.history.now() - asked;
                self.history.answered(Took { lasted, invoked: asked, what, face: self.face });
                said
            }
        }
    }

    /// A server that is stopped may break what is open to it. Nothing else may, and silence has no excuse.
    fn missed(&self, what: &str, miss: Miss, opened: u64, was_down: bool) -> Miss {
        let (life, is_down) = self.server.life();
        if matches!(miss, Miss::Silent) || !(was_down || is_down || life != opened) {
            self.history.complain(&Unanswered { face: self.face, what, miss: &miss });
        }
        miss
    }

    fn connect(&self) -> Result<Wire, Miss> {
        let patience = self.history.patience;
        Ok(match self.face {
            Face::Http => Wire::Http(Http::connect(self.server.http, patience)?),
            Face::Grpc => Wire::Grpc(Box::new(Grpc::connect(self.server.grpc, patience)?)),
            Face::Resp => Wire::Resp(Resp::connect(self.server.resp, patience)?),
        })
    }
}

struct Unanswered<'a> {
    face: Face,
    what: &'a str,
    miss: &'a Miss,
}

impl fmt::Display for Unanswered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unanswered: a {} over {:?}: {:?}", self.what, self.face, self.miss)
    }
}

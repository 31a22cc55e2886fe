//! What clients do, each in a thread of its own until the round stops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::caller::{Caller, FACES, Hold, Miss};
use crate::history::{Call, History, Span};
use crate::oracle::Used;
use crate::plant::Plant;
use crate::stage::{PUBLISHED, Stage, TTL};

/// Between two calls of a client. A soak is long, not fast.
const PAUSE: Duration = Duration::from_millis(90);
/// Until when a lost reservation is asked for again: while the first may still be held.
const AGAIN_FOR: Duration = Duration::from_millis(1_200);

pub(crate) struct Work<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) history: Arc<History>,
    pub(crate) stop: AtomicBool,
    pub(crate) round: u64,
    pub(crate) plant: Option<Plant>,
    pub(crate) used: Mutex<Used>,
    pub(crate) slots: Mutex<Vec<Span>>,
    pub(crate) blocks: Mutex<Vec<Span>>,
}

impl Work<'_> {
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{name}-{}", self.round)
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// A client of one of the servers, over one of the faces.
    pub(crate) fn caller(&self, which: usize) -> Caller {
        let servers = &self.stage.servers;
        let server = &servers[which % servers.len()];
        Caller::new(server, FACES[which / servers.len() % FACES.len()], &self.history)
    }

    /// Checks keys of all policies.
    pub(crate) fn check(&self, which: usize) {
        let (mut caller, mut rng) = (self.caller(which), Rng::with_seed(which as u64));
        while self.goes_on() {
            let policy = PUBLISHED[rng.usize(..PUBLISHED.len())].policy;
            let name = match (policy, rng.u8(..3)) {
                ("strict", 0) => "waited",
                ("strict", 1) => "blocked",
                _ => "checked",
            };
            let cost = if policy == "leased" { rng.u64(3..9) } else { rng.u64(1..3) };
            let (key, invoked) = (self.key(name), self.history.now());
            let decision = caller.check(policy, &key, cost);
            self.note(policy, key, invoked, decision);
            sleep(PAUSE);
        }
    }

    /// Waits in line.
    pub(crate) fn wait(&self, which: usize) {
        let mut caller = self.caller(which);
        while self.goes_on() {
            let (key, invoked) = (self.key("waited"), self.history.now());
            let decision = caller.wait("strict", &key, Duration::from_secs(1));
            self.note("strict", key, invoked, decision);
            sleep(PAUSE);
        }
    }

    fn note(
        &self,
        policy: &'static str,
        key: String,
        invoked: Duration,
        decision: Result<crate::caller::Decision, Miss>,
    ) {
        let Ok(decision) = decision else { return };
        let returned = self.history.now();
        let (granted, source) = (decision.granted, decision.source);
        let call = Call { policy, key, invoked, returned, granted, source };
        if self.plant == Some(Plant::CountedTwice) {
            self.history.admit(call.clone());
        }
        self.history.admit(call);
    }

    /// Reserves, and settles at another server, or never.
    pub(crate) fn reserve(&self, which: usize) {
        let mut rng = Rng::with_seed(which as u64);
        let mut callers = [self.caller(which), self.caller(which + 1)];
        let key = self.key("held");
        let mut number = 0;
        while self.goes_on() {
            number += 1;
            let id = format!("{}-{which}-{number}", self.round);
            let (cost, release, abandons) = (rng.u64(1..6), rng.bool(), rng.u8(..6) == 0);
            let ttl = if abandons { Duration::from_secs(1) } else { TTL };
            let expired = if release { 0 } else { cost };
            let hold = Hold { policy: "held", key: &key, cost, id: &id, ttl, release };
            let asked = self.history.now();
            let is_held =
                self.again(AGAIN_FOR.min(ttl / 2), |attempt| callers[attempt % 2].reserve(hold));
            match is_held {
                (Some(Ok(true)), _) => {}
                (Some(_), false) => continue,
                // An earlier attempt may be held, until it expires.
                _ => {
                    self.used().add(0, expired);
                    continue;
                }
            }
            if abandons {
                self.used().add(expired, expired);
                continue;
            }
            sleep(Duration::from_millis(rng.u64(20..300)));
            let used = (rng.u8(..4) > 0).then(|| rng.u64(0..=cost + 1));
            let settled = used.unwrap_or(0);
            if self.plant == Some(Plant::LostSettlement) && used.is_some() {
                self.used().add(settled, settled);
                continue;
            }
            match self.again(TTL, |attempt| callers[(attempt + 1) % 2].settle(&id, used)) {
                (Some(Ok(())), _) => self.used().add(settled, settled),
                (Some(_), false) => {
                    if self.history.now() - asked < ttl && self.history.losses().is_empty() {
                        self.history.complain(&format!("reservation {id} is lost before its time"));
                    }
                    self.used().add(expired, expired);
                }
                _ => self.used().add(settled, expired),
            }
            sleep(PAUSE);
        }
    }

    /// Tries until there is an answer that says what is; and whether an attempt before it may have had an effect.
    fn again<T>(
        &self,
        within: Duration,
        mut call: impl FnMut(usize) -> Result<T, Miss>,
    ) -> (Option<Result<T, Miss>>, bool) {
        let (start, mut is_unclear) = (self.history.now(), false);
        for attempt in 0.. {
            match call(attempt) {
                Err(Miss::Said(_) | Miss::Broken(_) | Miss::Silent) => is_unclear = true,
                answer => return (Some(answer), is_unclear),
            }
            if self.history.now() - start > within {
                break;
            }
            sleep(PAUSE);
        }
        (None, true)
    }

    /// Holds a place, of which there are few.
    pub(crate) fn hold_slot(&self, which: usize) {
        let (mut caller, mut rng) = (self.caller(which), Rng::with_seed(which as u64));
        let key = self.key("slots");
        let mut number = 0;
        while self.goes_on() {
            number += 1;
            let id = format!("slot-{}-{which}-{number}", self.round);
            let invoked = self.history.now();
            let hold =
                Hold { policy: "slots", key: &key, cost: 1, id: &id, ttl: TTL, release: true };
            if let Ok(true) = caller.reserve(hold) {
                let from = self.history.now();
                sleep(Duration::from_millis(rng.u64(50..400)));
                let to = self.history.now().min(invoked + TTL);
                if from < to {
                    self.slots.lock().expect("nobody panics with it").push((from, to));
                }
                // If that fails, its time ends.
                _ = caller.settle(&id, None);
            }
            sleep(PAUSE);
        }
    }

    /// Blocks a key, and lets it go.
    pub(crate) fn block(&self) {
        let path = format!("/v1/policies/strict/keys/{}/override", self.key("blocked"));
        let block = json!({"block": true});
        while self.goes_on() {
            if let Some(200..=204) = self.admin(0, "PUT", &path, &block) {
                let from = self.history.now();
                if self.plant == Some(Plant::LostBlock) {
                    self.admin(1, "DELETE", &path, &Value::Null);
                }
                sleep(Duration::from_millis(900));
                let to = self.history.now();
                self.blocks.lock().expect("nobody panics with it").push((from, to));
            }
            self.admin(2, "DELETE", &path, &Value::Null);
            sleep(4 * PAUSE);
        }
    }

    /// The status of an administrator's call; none if there was no answer.
    pub(crate) fn admin(
        &self,
        server: usize,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Option<u16> {
        self.ask(server, method, path, body).map(|(status, _)| status)
    }

    pub(crate) fn ask(
        &self,
        server: usize,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Option<(u16, Value)> {
        let server = &self.stage.servers[server % self.stage.servers.len()];
        let mut http = crate::caller::Http::connect(server.http, self.history.patience).ok()?;
        http.ask(method, path, body).ok()
    }

    pub(crate) fn used(&self) -> std::sync::MutexGuard<'_, Used> {
        self.used.lock().expect("nobody panics with it")
    }
}

//! Clients and faults for a few seconds, and what must hold afterwards.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{scope, sleep};
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::caller::{Face, Hold};
use crate::fault::{Fault, soon};
use crate::history::History;
use crate::oracle::{Used, blocked, held_at_once, over_admission};
use crate::plant::Plant;
use crate::stage::{HELD, PUBLISHED, SERVERS, SLOTS, Stage, TTL};
use crate::work::Work;

/// Nothing that works takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(20);
const BEFORE: Duration = Duration::from_millis(1_000);
const AFTER: Duration = Duration::from_millis(1_500);

/// One round. Its history has the complaints.
pub(crate) fn play(
    stage: &Stage,
    fault: Fault,
    rng: &mut Rng,
    plant: Option<Plant>,
) -> Arc<History> {
    let patience = if plant == Some(Plant::Mute) { Duration::from_millis(1_000) } else { PATIENCE };
    let history = Arc::new(History::new(patience));
    let work = Work {
        stage,
        history: Arc::clone(&history),
        stop: AtomicBool::new(false),
        round: stage.next_round(),
        plant,
        used: Mutex::default(),
        slots: Mutex::default(),
        blocks: Mutex::default(),
    };
    let open = scope(|scope| {
        for which in 0..3 * SERVERS {
            let work = &work;
            scope.spawn(move || work.check(which));
        }
        for which in 0..3 {
            // Of each server and each face, one.
            let (work, which) = (&work, which * (SERVERS + 1));
            scope.spawn(move || work.wait(which));
            scope.spawn(move || work.reserve(which));
            scope.spawn(move || work.hold_slot(which));
            scope.spawn(move || work.hold_slot(which + 1));
        }
        scope.spawn(|| work.block());
        sleep(BEFORE);
        if plant == Some(Plant::Mute) {
            stage.servers[0].pause();
            sleep(3 * patience);
            stage.servers[0].resume();
        }
        let open = fault.happen(&work, rng);
        sleep(AFTER);
        work.stop.store(true, Ordering::Relaxed);
        open
    });
    drop(open);
    if plant == Some(Plant::LostSlot) {
        let (key, ttl) = (work.key("slots"), TTL);
        let hold = Hold { policy: "slots", key: &key, cost: 1, id: "lost", ttl, release: true };
        while !soon(|| work.caller(0).reserve(hold).is_ok_and(|held| held)) {}
    }
    recovered(&work);
    judge(&work);
    tidy(&work);
    history
}

/// Every server decides by Redis again.
fn recovered(work: &Work<'_>) {
    let question = json!({"policy": "shared", "key": "probe", "cost": 0});
    for i in 0..work.stage.servers.len() {
        let decides = || {
            let answer = work.ask(i, "POST", "/v1/peek", &question);
            answer.is_some_and(|(_, body)| body["source"] == "authoritative")
        };
        if !soon(decides) {
            work.history.complain(&format!("server {i} does not find Redis again"));
        }
    }
}

fn judge(work: &Work<'_>) {
    let history = &work.history;
    let (calls, losses) = (history.calls(), history.losses());
    let complain = |judged: Result<(), String>| {
        if let Err(why) = judged {
            history.complain(&why);
        }
    };
    for published in &PUBLISHED {
        complain(over_admission(&calls, published, &losses));
    }
    let blocks = work.blocks.lock().expect("nobody panics with it").clone();
    let slots = work.slots.lock().expect("nobody panics with it").clone();
    // Oracles that are not asked do not complain.
    if calls.len() < 100 || blocks.is_empty() || slots.is_empty() || work.used().most == 0 {
        let (calls, blocks, slots) = (calls.len(), blocks.len(), slots.len());
        history.complain(&format!("too little: {calls} decisions, {blocks} blocks, {slots} slots"));
    }
    complain(blocked(&calls, &work.key("blocked"), &blocks, &losses));
    complain(held_at_once(&slots, usize::try_from(SLOTS).expect("few"), &losses));
    complain(no_slot_is_lost(work));
    complain(conserved(work, *work.used()));
}

/// When the time of all reservations is over, all places are free.
fn no_slot_is_lost(work: &Work<'_>) -> Result<(), String> {
    if work.plant != Some(Plant::LostSlot) {
        sleep(TTL + TTL / 10);
    }
    let (key, ttl) = (work.key("slots"), Duration::from_millis(100));
    let hold = Hold { policy: "slots", key: &key, cost: SLOTS, id: &key, ttl, release: true };
    let mut caller = work.caller(Face::Http as usize * SERVERS);
    match caller.reserve(hold) {
        Ok(true) => caller.settle(&key, None).map_err(|miss| format!("{miss:?}")),
        Ok(false) => Err("a place is held by nobody".to_owned()),
        Err(miss) => Err(format!("places cannot be reserved: {miss:?}")),
    }
}

/// What clients used is what Redis counts.
fn conserved(work: &Work<'_>, used: Used) -> Result<(), String> {
    let question = json!({"policy": "held", "key": work.key("held"), "cost": 0});
    let answer = work.ask(0, "POST", "/v1/peek", &question);
    let left = answer.as_ref().and_then(|(_, body)| body["remaining"].as_u64());
    let left = left.ok_or_else(|| format!("no peek of what is held: {answer:?}"))?;
    used.compare(HELD - left, &work.history.losses())
}

/// Resets the key that would stay for a year.
fn tidy(work: &Work<'_>) {
    let question = json!({"policy": "held", "key": work.key("held")});
    let path = format!("/v1/policies/strict/keys/{}/override", work.key("blocked"));
    let reset = || work.admin(0, "POST", "/v1/reset", &question) == Some(200);
    let cleared = || matches!(work.admin(1, "DELETE", &path, &Value::Null), Some(200..=204 | 404));
    if !soon(reset) || !soon(cleared) {
        work.history.complain(&"what the round left cannot be cleared");
    }
}

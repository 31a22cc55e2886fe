//! Each planted fault is noticed by its oracle.

use std::thread::sleep;
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;

use crate::baseline::Baseline;
use crate::caller::Http;
use crate::fault::Fault;
use crate::plant::Plant;
use crate::round;
use crate::stage::Stage;

fn caught(plant: Plant, by: &str) {
    let (stage, mut rng) = (Stage::new(), Rng::with_seed(1));
    let history = round::play(&stage, Fault::None, &mut rng, Some(plant));
    let complaints = history.complaints();
    assert!(complaints.iter().any(|why| why.contains(by)), "{plant:?}: {complaints:#?}");
}

#[test]
fn admissions_counted_twice() {
    caught(Plant::CountedTwice, "over-admission of strict");
}

#[test]
fn a_settlement_that_is_lost() {
    caught(Plant::LostSettlement, "conservation: ");
}

#[test]
fn an_override_that_is_lost() {
    caught(Plant::LostBlock, "passed a block");
}

#[test]
fn a_place_that_is_lost() {
    caught(Plant::LostSlot, "a place is held by nobody");
}

#[test]
fn a_server_that_does_not_answer() {
    caught(Plant::Mute, "unanswered: a check over Http: Silent");
}

#[test]
fn what_is_not_given_back() {
    let (stage, mut rng) = (Stage::new(), Rng::with_seed(1));
    round::play(&stage, Fault::None, &mut rng, None);
    // Until the servers have closed what the clients closed.
    sleep(Duration::from_secs(2));
    let before = Baseline::of(&stage);
    let complaint = || {
        let (_, given_back) = before.regained(&stage, Duration::from_secs(1));
        given_back.expect_err("a planted fault")
    };
    let patience = Duration::from_secs(20);
    // Known by its request, a connection stays open for a minute.
    let mut http = Http::connect(stage.servers[1].http, patience).expect("it listens");
    http.ask("POST", "/v1/peek", &json!({"policy": "strict", "key": "k"})).expect("an answer");
    assert!(complaint().contains("descriptors at server 1"), "{}", complaint());
    drop(http);
    for i in 0..8 {
        stage.redis.command(&["SET", &format!("planted-{i}"), "for ever"]);
    }
    assert!(complaint().contains("keys in Redis"), "{}", complaint());
    stage.redis.command(&["SET", "planted-0", &"x".repeat(16 << 20)]);
    assert!(complaint().contains("bytes in Redis"), "{}", complaint());
    let mut smaller = before.clone();
    smaller.servers[2].rss_kib -= 9 * 1_024;
    let (_, given_back) = smaller.regained(&stage, Duration::ZERO);
    let why = given_back.expect_err("memory that was not there before");
    assert!(why.contains("KiB of memory at server 2"), "{why}");
}

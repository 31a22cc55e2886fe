//! What signals do.

use rustix::process::Signal;

use super::process::Serving;
use crate::support::Place;

const POLICY: &str = "[policies.p]\nlimits = [\"5/h\"]\n";

#[test]
fn a_second_one_ends_it_now() {
    for (first, second) in [(Signal::TERM, Signal::TERM), (Signal::INT, Signal::TERM)] {
        let mut serving = Serving::start(Place::with_config(POLICY));
        // Something to wait for, much longer than this test does.
        let mut stuck = serving.client();
        stuck.begin();
        serving.signal(first);
        serving.until("it stops", |serving| serving.log().contains("stopping"));
        serving.signal(second);
        let status = serving.ended();
        assert_eq!(status.code(), Some(2), "{}", serving.log());
        assert!(serving.log().contains("ended by a second signal"), "{}", serving.log());
        assert!(!serving.log().contains("stopped"), "{}", serving.log());
    }
}

#[test]
fn interrupted_in_good_order() {
    let mut serving = Serving::start(Place::with_config(POLICY));
    serving.signal(Signal::INT);
    assert_eq!(serving.ended().code(), Some(0));
    assert!(serving.log().contains("stopped"), "{}", serving.log());
}

#[test]
fn hanging_up_reads_the_configuration_again() {
    let mut serving = Serving::start(Place::with_config(POLICY));
    let generation = |serving: &Serving| {
        serving.client().get("/v1/config").json()["generation"].as_u64().unwrap()
    };
    assert_eq!(generation(&serving), 1);
    // The file is the same; only the signal can be the reason.
    serving.signal(Signal::HUP);
    serving.until("read again", |serving| generation(serving) == 2);
    std::fs::write(serving.place().path("waterclock.toml"), "[policies.p]\nlimits = [\"1/x\"]\n")
        .unwrap();
    serving.signal(Signal::HUP);
    serving.until("turned down", |serving| serving.log().contains("the old configuration stays"));
    assert_eq!(serving.client().check("p", "k").status, 200);
}

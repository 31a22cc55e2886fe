//! Servers that share a store, and count each other.

use waterclock_conformance::real::RedisServer;

use super::process::Serving;
use crate::support::Place;

#[test]
fn more_than_the_configuration_says() {
    let redis = RedisServer::start();
    let text = format!("[store]\nurl = \"{}\"\n[policies.p]\nlimits = [\"5/h\"]\n", redis.url());
    let mut one = Serving::start(Place::with_config(&text));
    let warning = "2 servers share the store, more than `nodes` in [store] says";
    assert!(!one.log().contains("servers share"), "{}", one.log());
    let mut two = Serving::start(Place::with_config(&text));
    for serving in [&mut one, &mut two] {
        serving.until("a warning", |serving| serving.log().contains(warning));
        assert_eq!(serving.log().matches(warning).count(), 1, "{}", serving.log());
    }
}

//! A cluster.

use waterclock_conformance::real::{Cluster, Connection, Reply};

fn set(cluster: &Cluster, node: usize, key: &str) -> Reply {
    cluster.nodes()[node].command(&["SET", key, "value"])
}

fn is(reply: &Reply, kind: &str) -> bool {
    reply.as_error().is_some_and(|message| message.starts_with(kind))
}

#[test]
fn serves_every_slot_and_moves_them() {
    let cluster = Cluster::start(3, 0);
    assert_eq!([0, 1], [0, 16_383].map(|slot| cluster.primary_of_slot(slot)).map(|i| i / 2));
    let slot = cluster.slot_of("{alice}");
    let from = cluster.primary_of_slot(slot);
    let to = (from + 1) % 3;
    for key in ["{alice}1", "{alice}2", "{alice}3"] {
        assert!(set(&cluster, from, key).is_ok());
    }
    assert!(is(&set(&cluster, to, "{alice}1"), "MOVED"));

    let moving = cluster.begin_move(slot, to);
    assert_eq!((moving.slot, moving.from, moving.to), (slot, from, to));
    assert_eq!(cluster.move_keys(moving, 1), 1);
    // One key is at the new place, two are at the old one, and one is nowhere yet.
    let asked = |key: &str| is(&cluster.nodes()[from].command(&["GET", key]), "ASK ");
    let keys = ["{alice}1", "{alice}2", "{alice}3", "{alice}4"];
    assert_eq!(keys.iter().filter(|key| asked(key)).count(), 2);
    let mut redirected = Connection::open(cluster.nodes()[to].port()).unwrap();
    redirected.command(&["ASKING"]).unwrap();
    assert!(redirected.command(&["SET", "{alice}4", "value"]).unwrap().is_ok());
    assert!(is(&set(&cluster, to, "{alice}4"), "MOVED"));
    cluster.finish_move(moving);

    assert_eq!(cluster.primary_of_slot(slot), to);
    for key in keys {
        assert_eq!(cluster.nodes()[to].command(&["GET", key]).as_text(), "value");
    }
    assert!(is(&set(&cluster, from, "{alice}1"), "MOVED"));
    cluster.move_slot(slot, to, from);
    assert!(set(&cluster, from, "{alice}1").is_ok());
}

#[test]
fn replaces_a_primary() {
    let cluster = Cluster::start(3, 1);
    assert_eq!(cluster.nodes().len(), 6);
    assert_eq!(cluster.url().matches("127.0.0.1:").count(), 6);
    let slot = cluster.slot_of("alice");
    let old = cluster.primary_of_slot(slot);
    // WAIT waits for what its own connection wrote.
    let mut connection = cluster.nodes()[old].connect().unwrap();
    assert!(connection.command(&["SET", "alice", "value"]).unwrap().is_ok());
    assert_eq!(connection.command(&["WAIT", "1", "4000"]).unwrap().as_int(), 1);
    cluster.kill_primary(old);
    let new = cluster.wait_for_failover(old);
    assert_eq!(new, old + 3);
    assert_eq!(cluster.primary_of_slot(slot), new);
    assert_eq!(cluster.nodes()[new].command(&["GET", "alice"]).as_text(), "value");
    // A node that returns follows its successor, whatever it remembers.
    cluster.nodes()[old].restart();
    assert_eq!(cluster.primary_of_slot(slot), new);
    cluster.wait_until_ok();
    assert!(is(&set(&cluster, old, "alice"), "MOVED"));
}

//! Sentinels.

use waterclock_conformance::real::Sentinel;

#[test]
fn replace_a_primary() {
    let service = Sentinel::start();
    let port = service.primary().port();
    // WAIT waits for what its own connection wrote.
    let mut connection = service.primary().connect().unwrap();
    assert!(connection.command(&["SET", "key", "kept"]).unwrap().is_ok());
    assert_eq!(connection.command(&["WAIT", "1", "4000"]).unwrap().as_int(), 1);
    service.kill_primary();
    let heir = service.wait_for_failover();
    assert_ne!(heir, port);
    assert_eq!(service.primary().port(), heir);
    assert_eq!(service.primary().command(&["GET", "key"]).as_text(), "kept");
    assert!(service.primary().command(&["SET", "key", "new"]).is_ok());
    assert!(service.url().ends_with("/service-name"));
}

//! Policies whose names have slashes, dots and colons; and those of the server itself.

use super::ground::Ground;
use crate::at_work::hurried;

#[test]
fn no_name_is_the_servers_own() {
    let names = ["api/notes/create", "API:v2.1", "cl.throttle", "held.unlimited"];
    let policy = |name: &&str| format!("[policies.\"{name}\"]\nlimits = [\"2/h\"]\n");
    let text: String = names.iter().map(policy).collect();
    let ground = Ground::with(&text, hurried());
    let mut client = ground.client();
    assert_eq!(client.numbers("CL.THROTTLE k 4 1 3600")[..3], [0, 5, 4]);
    for name in names {
        let numbers = client.numbers(&format!("RL.CHECK {name} k"));
        assert_eq!(numbers[..3], [1, 2, 1], "{name} has its own budget");
    }
    assert_eq!(client.numbers("CL.THROTTLE k 4 1 3600")[..3], [0, 5, 3]);
    let metrics = ground.metrics();
    for (name, count) in [("@throttle", 2), ("cl.throttle", 1), ("api/notes/create", 1)] {
        let line = format!(
            "waterclock_decisions_total{{policy=\"{name}\",outcome=\"allow\",face=\"resp\"}} {count}"
        );
        assert!(metrics.contains(&line), "{line}");
    }
    let unknown = client.error("RL.CHECK @throttle k");
    assert!(unknown.contains("there is no policy '@throttle'"), "{unknown}");
}

//! A server whose store is not there, asked by every command that asks servers.

use std::net::TcpListener;

use crate::serve::process::Serving;
use crate::support::Place;

fn serve() -> Serving {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!(
        "[store]\nurl = \"redis://{closed}\"\n[policies.strict]\non_store_error = \"deny\"\nlimits = [\"5/h\"]\n\
         [policies.local]\nlimits = [\"5/h\"]\n\
         [[rules]]\ndomain = \"d\"\npolicy = \"strict\"\ndescriptor = [{{ key = \"user\" }}]\n"
    );
    Serving::start(Place::with_config(&config))
}

#[test]
fn a_load_without_decisions() {
    let serving = serve();
    for (face, more) in [
        ("http", &["--policy", "strict"][..]),
        ("http", &["--policy", "strict", "--batch", "3"]),
        ("resp", &["--policy", "strict", "--pipeline", "3"]),
        ("grpc", &["--domain", "d", "--descriptor", "user={key}"]),
    ] {
        let url = serving.url(face);
        let arguments = [&["bench", &*url, "--requests", "12", "--json"], more].concat();
        let run = Place::new().run(&arguments);
        assert_eq!(run.code, Some(2), "{face} {more:?}");
        run.warns("nothing was decided: the ");
        let report = run.json();
        let errors = if more.contains(&"--batch") { 36 } else { 12 };
        assert_eq!(
            (&report["errors"], &report["decisions"]),
            (&errors.into(), &0.into()),
            "{face} {more:?}"
        );
    }
}

#[test]
fn a_decision_in_its_place_says_so() {
    let serving = serve();
    let url = serving.url("http");
    let run = Place::new().run(&["check", "--server", &url, "local", "alice"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.starts_with("warning: decided by the server's share"), "{}", run.stderr);
    let run = Place::new().run(&["check", "--server", &url, "strict", "alice"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    run.warns("the store failed (");
}

#[test]
fn top_shows_that_it_is_degraded() {
    let serving = serve();
    let url = serving.url("http");
    // The breaker opens when the store is asked in vain.
    for _ in 0..10 {
        Place::new().run(&["check", "--server", &url, "local", "alice"]);
    }
    let run = Place::new().run(&["top", &url, "--once", "--interval", "100ms"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.says(&["store redis: DEGRADED for "]);
    run.says(&[" failures so far ("]);
}

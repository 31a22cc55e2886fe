//! A running server behind TLS, asked by every command that asks one.

use waterclock_conformance::real::Certificates;

use crate::serve::process::Serving;
use crate::support::{Place, Run};

const POLICY: &str = "[policies.p]\nlimits = [\"5/h\"]\n\
    [[rules]]\ndomain = \"d\"\npolicy = \"p\"\ndescriptor = [{ key = \"user\" }]\n";

const FACES: [(&str, &str, &str); 3] =
    [("http", "http", "https"), ("grpc", "grpc", "grpcs"), ("resp", "redis", "rediss")];

/// A server that shows a certificate of its own authority.
struct Scene {
    serving: Serving,
    certificates: Certificates,
}

impl Scene {
    fn new(more: &str) -> Scene {
        let certificates = Certificates::new();
        let path = |name| certificates.path(name);
        let (cert, key, ca) = (path("certificate"), path("key"), path("ca"));
        let more = more.replace("CA", &ca);
        let tls =
            format!("[server]\ntls = {{ cert = \"{cert}\", key = \"{key}\"{more} }}\n{POLICY}");
        let serving = Serving::start(Place::with_config(&tls));
        Scene { serving, certificates }
    }

    /// Where a face is, by a scheme.
    fn at(&self, face: &str, scheme: &str) -> String {
        at(&self.serving, face, scheme)
    }

    /// A run on a system that knows no authority but one that has nothing to do with this.
    fn run(&self, arguments: &[&str]) -> Run {
        let stranger = Certificates::new();
        run_where(&stranger.path("ca"), arguments)
    }

    fn run_with_ca(&self, arguments: &[&str]) -> Run {
        self.run(&[arguments, &["--ca", &self.certificates.path("ca")]].concat())
    }
}

fn at(serving: &Serving, face: &str, scheme: &str) -> String {
    format!("{scheme}://{}", serving.url(face).split_once("://").unwrap().1)
}

/// A run on a system whose authorities are those of a file.
fn run_where(authorities: &str, arguments: &[&str]) -> Run {
    let environment = [("SSL_CERT_FILE", authorities), ("SSL_CERT_DIR", "")];
    Place::new().run_with(&environment, arguments)
}

/// What a face is loaded with.
fn bench<'a>(url: &'a str, face: &str) -> Vec<&'a str> {
    let about: &[&str] = match face {
        "grpc" => &["--domain", "d", "--descriptor", "user={key}"],
        _ => &["--policy", "p"],
    };
    [&["bench", url, "--requests", "20", "--keys", "1", "--json"], about].concat()
}

#[track_caller]
fn complains(run: &Run, sentence: &str) {
    run.fails(sentence);
}

#[test]
fn every_command_and_every_face() {
    let scene = Scene::new("");
    let https = scene.at("http", "https");
    let check = scene.run_with_ca(&["check", "--server", &https, "p", "alice"]).ok();
    assert!(check.stdout.starts_with("allowed; 4 left"), "{}", check.stdout);
    // The key is the same by HTTP and in the Redis protocol; a descriptor makes another.
    for (left, (face, _, scheme)) in [5, 5, 0].into_iter().zip(FACES) {
        let url = scene.at(face, scheme);
        let run = scene.run_with_ca(&bench(&url, face)).ok();
        let report = run.json();
        assert_eq!(report["target"], *url);
        let counts = ["allowed", "refused", "errors"].map(|name| report[name].as_u64());
        assert_eq!(counts, [Some(left), Some(20 - left), Some(0)], "{url}");
    }
    let top = scene.run_with_ca(&["top", &https, "--once", "--json"]).ok();
    assert_eq!(top.json()["totals"]["allowed"], 11);
}

#[test]
fn by_the_authorities_of_the_system() {
    let scene = Scene::new("");
    let https = scene.at("http", "https");
    let question = ["check", "--server", &https, "p", "alice"];
    run_where(&scene.certificates.path("ca"), &question).ok();
    let empty = Place::new().file("none", "");
    let none = run_where(&empty.path("none"), &question);
    complains(&none, "this system has no certificate authorities; name one with --ca\n");
}

#[test]
fn an_authority_that_is_not_known() {
    let scene = Scene::new("");
    let hint = "has a certificate of an unknown authority; name the authority's file with --ca\n";
    for (face, _, scheme) in FACES {
        let url = scene.at(face, scheme);
        complains(&scene.run(&bench(&url, face)), hint);
    }
    let https = scene.at("http", "https");
    complains(&scene.run(&["check", "--server", &https, "p", "alice"]), hint);
    complains(&scene.run(&["top", &https, "--once"]), hint);
    let stranger = Certificates::new();
    let other = ["check", "--server", &https, "p", "alice", "--ca", &stranger.path("ca")];
    complains(&scene.run(&other), "name the authority's file with --ca\n");
}

#[test]
fn a_name_that_the_certificate_is_not_for() {
    let scene = Scene::new("");
    let url = scene.at("http", "https").replace("127.0.0.1", "[::ffff:127.0.0.1]");
    let run = scene.run_with_ca(&["check", "--server", &url, "p", "alice"]);
    complains(
        &run,
        "has a certificate that is not for ::ffff:127.0.0.1; use a name that it is for\n",
    );
}

#[test]
fn plain_text_taken_for_tls() {
    let serving = Serving::start(Place::with_config(POLICY));
    let certificates = Certificates::new();
    let ca = certificates.path("ca");
    for (face, plain, scheme) in FACES {
        let url = at(&serving, face, scheme);
        let run = run_where(&ca, &bench(&url, face));
        complains(&run, &format!("{url}: does not "));
        complains(&run, "speak");
        complains(&run, &format!("write {plain}://"));
    }
    let https = at(&serving, "http", "https");
    for arguments in [&["check", "--server", &*https, "p", "k"][..], &["top", &https, "--once"]] {
        let sentence =
            "does not speak TLS there; write http:// instead of https:// if plain text is meant\n";
        complains(&run_where(&ca, arguments), sentence);
    }
}

#[test]
fn tls_taken_for_plain_text() {
    let scene = Scene::new("");
    for (face, plain, scheme) in FACES {
        let url = scene.at(face, plain);
        let sentence =
            format!("{url}: speaks TLS there; write {scheme}:// instead of {plain}://\n");
        complains(&scene.run(&bench(&url, face)), &sentence);
    }
    let http = scene.at("http", "http");
    for arguments in [&["check", "--server", &*http, "p", "k"][..], &["top", &http, "--once"]] {
        let sentence = "speaks TLS there; write https:// instead of http://\n";
        complains(&scene.run(arguments), sentence);
    }
}

#[test]
fn a_server_that_asks_for_certificates() {
    let scene = Scene::new(", client_ca = \"CA\"");
    for (face, _, scheme) in FACES {
        let url = scene.at(face, scheme);
        let run = scene.run_with_ca(&bench(&url, face));
        complains(&run, "requires a client certificate, which this command cannot present\n");
    }
}

#[test]
fn files_of_authorities() {
    let place = Place::new().file("noise.pem", "noise");
    let ask = |url: &str, ca: &str| place.run(&["check", "--server", url, "--ca", ca, "p", "k"]);
    complains(&ask("https://127.0.0.1", "nowhere.pem"), "nowhere.pem: there is no such file\n");
    complains(
        &ask("https://127.0.0.1", "noise.pem"),
        "noise.pem: contains no certificate in PEM format\n",
    );
    let plain = "--ca is for TLS; write https:// instead of http://\n";
    complains(&ask("http://127.0.0.1", "noise.pem"), plain);
    complains(&place.run(&["top", "http://127.0.0.1", "--ca", "noise.pem"]), plain);
    let redis = place.run(&["bench", "redis://127.0.0.1", "--ca", "noise.pem"]);
    complains(&redis, "--ca is for TLS; write rediss:// instead of redis://\n");
}

//! nginx, with `auth_request`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::deployed::{self, Ports};
use crate::edge::Edge;
use crate::installed::program;
use crate::visitor::Visitor;

/// What a system's own nginx.conf says around the files in conf.d, with nothing outside of the folder.
/// One process instead of a master with workers: those would outlive a master that is killed.
const MAIN: &str = "
daemon off;
master_process off;
pid nginx.pid;
error_log stderr;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include waterclock.conf;
}
";

fn nginx(folder: &Path, ports: &Ports) -> Command {
    deployed::copy("nginx/waterclock.conf", folder, ports);
    fs::write(folder.join("main.conf"), MAIN).expect("a folder of ours");
    let mut command = program("nginx");
    command.arg("-p").arg(folder).args(["-c", "main.conf", "-e", "stderr"]);
    command
}

#[test]
fn refuses_what_is_too_much() {
    let edge = Edge::start(nginx);
    let allowed = edge.get(Visitor::at(3), "/");
    assert_eq!(allowed.header("ratelimit-policy"), Some("\"per-client.burst\";q=20;w=20"));
    assert_eq!(allowed.header("ratelimit"), Some("\"per-client.burst\";r=19;t=19"));
    assert_eq!(allowed.header("retry-after"), None);

    edge.refuses_what_is_too_much();
}

#[test]
fn leaves_a_refusal_of_the_origin_alone() {
    let edge = Edge::start(nginx);
    let forbidden = edge.get(Visitor::at(2), "/forbidden");
    assert_eq!((forbidden.status, forbidden.body.trim()), (403, "hello from the origin"));
}

#[test]
fn answers_no_questions_about_policies_from_outside() {
    let edge = Edge::start(nginx);
    assert_eq!(edge.get(Visitor::at(2), "/_waterclock/login").status, 404);
}

#[test]
fn knows_its_visitors() {
    Edge::start(nginx).knows_its_visitors();
}

#[test]
fn survives_a_crash() {
    Edge::start(nginx).survives_a_crash(500);
}

#[test]
fn survives_a_hang() {
    Edge::start(nginx).survives_a_hang(500);
}

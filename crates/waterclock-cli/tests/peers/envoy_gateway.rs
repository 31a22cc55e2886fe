//! Envoy in front of `waterclock ratelimit`, configured as Envoy Gateway configures both.

use std::fs;
use std::process::Command;

use tempfile::TempDir;
use waterclock_conformance::real::{await_that, free_port};

use crate::background::Background;
use crate::deployed::{self, Ports};
use crate::envoy::with_file;
use crate::origin::Origin;
use crate::visitor::Visitor;

/// A route of Envoy Gateway: the entry that names it, then that of its rule.
const ROUTE: &str = "httproute/default/backend/rule/0/match/0/www_example_com";

/// The limits as the reference service's file has them.
fn limits(shadow: bool) -> String {
    format!(
        "domain: edge\ndescriptors:\n- key: {ROUTE}\n  value: {ROUTE}\n  descriptors:\n  - key: rule-0-match--1\n    \
         value: rule-0-match--1\n    shadow_mode: {shadow}\n    rate_limit: {{ unit: hour, requests_per_unit: 3 }}\n"
    )
}

/// The filter of `deploy/envoy` with the descriptors of Envoy Gateway.
fn envoy(text: &str) -> String {
    let actions = format!(
        "- actions: [{{ generic_key: {{ descriptor_key: {ROUTE}, descriptor_value: {ROUTE} }} }}, \
         {{ generic_key: {{ descriptor_key: rule-0-match--1, descriptor_value: rule-0-match--1 }} }}]"
    );
    let changed = text.replacen("- actions: [{ remote_address: {} }]", &actions, 1);
    assert_ne!(changed, text, "the file has other actions now");
    changed
}

fn answers(shadow: bool) -> Vec<(u16, String, u64)> {
    let folder = TempDir::with_prefix("waterclock-gateway-").expect("a folder can be made");
    let config = folder.path().join("config");
    fs::create_dir(&config).expect("a folder of ours");
    fs::write(config.join("edge.yaml"), limits(shadow)).expect("a folder of ours");
    let [http, debug, grpc, proxy] = [free_port(), free_port(), free_port(), free_port()];
    let mut command = Command::new(env!("CARGO_BIN_EXE_waterclock"));
    command
        .args(["ratelimit"])
        .env_remove("WATERCLOCK_STORE_URL")
        .envs([("HOST", "127.0.0.1"), ("DEBUG_HOST", "127.0.0.1"), ("GRPC_HOST", "127.0.0.1")])
        .envs(
            [("PORT", http), ("DEBUG_PORT", debug), ("GRPC_PORT", grpc)]
                .map(|(n, p)| (n, p.to_string())),
        )
        .env("RUNTIME_ROOT", folder.path());
    let _service = Background::start(&mut command, folder.path(), http);
    let visitor = Visitor::at(2);
    await_that("it is healthy", || visitor.get(http, "/healthcheck").status == 200);
    let origin = Origin::start();
    let ports = Ports { proxy, origin: origin.port(), http, grpc };
    let file = deployed::copy("envoy/envoy.yaml", folder.path(), &ports);
    let text = fs::read_to_string(&file).expect("just written");
    fs::write(&file, envoy(&text)).expect("a folder of ours");
    let _proxy = Background::start(&mut with_file(&file), folder.path(), proxy);
    // Requests that fail while Envoy connects are not counted.
    await_that("a visitor passes", || visitor.get(proxy, "/").status != 503);
    let mut answers = Vec::new();
    for _ in 0..4 {
        let answer = visitor.get(proxy, "/");
        let limit = answer.header("x-ratelimit-limit").unwrap_or_default().to_owned();
        answers.push((answer.status, limit, answer.number("x-ratelimit-remaining")));
    }
    answers
}

/// One request has passed before; what follows is exactly what Envoy Gateway's own tests want.
#[test]
fn headers_and_refusals_are_those_of_the_reference_service() {
    let limit = || "3, 3;w=3600".to_owned();
    let refused = (429, limit(), 0);
    let expected = [(200, limit(), 1), (200, limit(), 0), refused.clone(), refused];
    assert_eq!(answers(false), expected);
}

#[test]
fn limits_in_shadow_show_the_same_headers() {
    let limit = || "3, 3;w=3600".to_owned();
    assert_eq!(answers(true), [1, 0, 0, 0].map(|left| (200, limit(), left)));
}

//! The Kubernetes manifests, as far as they go without Kubernetes: what the Deployment runs, with the
//! ConfigMap's file and the Secret's variables, on a real Redis.

use std::fs;

use serde_json::Value;
use waterclock_conformance::real::RedisServer;

use crate::deployed;
use crate::installed::peer;
use crate::script;
use crate::server::Server;
use crate::visitor::Visitor;

/// Prints the documents of YAML files as one list of JSON.
const READ: &str = "import json, sys, yaml
files = [open(name) for name in sys.argv[1:]]
print(json.dumps([document for file in files for document in yaml.safe_load_all(file)]))";

fn documents() -> Vec<Value> {
    let mut python = peer("python/bin/python");
    python.args(["-c", READ]);
    let folder = fs::read_dir(deployed::path("kubernetes")).expect("the folder is there");
    python.args(folder.map(|entry| entry.expect("it can be listed").path()));
    serde_json::from_str(&script::run(&mut python)).expect("it prints JSON")
}

#[test]
fn the_pod_serves_clients_with_a_token() {
    let documents = documents();
    let of_kind = |kind: &str| {
        let found = documents.iter().find(|document| document["kind"] == kind);
        found.unwrap_or_else(|| panic!("there is no {kind}"))
    };
    let redis = RedisServer::start();
    let configuration = of_kind("ConfigMap")["data"]["waterclock.toml"].as_str().expect("a file");
    let secret = of_kind("Secret")["stringData"].as_object().expect("variables");
    let mut environment: Vec<(String, String)> = secret
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned()))
        .collect();
    let token = |name: &str| format!("Bearer {}", secret[name].as_str().expect("a text"));
    assert!(secret.contains_key("WATERCLOCK_STORE_URL"));
    environment.push(("WATERCLOCK_STORE_URL".to_owned(), redis.url()));

    let server = Server::start_with(configuration, environment);
    let get = |path: &str, token: &str| {
        Visitor::at(1).get_with(server.http, path, &[("Authorization", token)]).status
    };
    // The paths that the probes ask, which have no token.
    let container = &of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0];
    for probe in ["readinessProbe", "livenessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().expect("a path");
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let question = "/v1/authorize?policy=per-client";
    assert_eq!(server.get(question).status, 401);
    assert_eq!(get(question, &token("WATERCLOCK_READ_TOKEN")), 403);
    assert_eq!(get(question, &token("WATERCLOCK_CHECK_TOKEN")), 200);
    assert_eq!(get("/metrics", &token("WATERCLOCK_READ_TOKEN")), 200);
    assert_eq!(get("/v1/policies", &token("WATERCLOCK_ADMIN_TOKEN")), 200);
    server.stop();
}

/// While Redis is away each replica serves its share, so the two numbers must be one.
#[test]
fn each_replica_knows_how_many_there_are() {
    let documents = documents();
    let replicas = documents.iter().find_map(|document| document["spec"]["replicas"].as_u64());
    let configuration =
        documents.iter().find_map(|document| document["data"]["waterclock.toml"].as_str());
    let replicas = replicas.expect("the Deployment has replicas");
    let configuration = configuration.expect("the ConfigMap has a file");
    assert!(configuration.contains(&format!("nodes = {replicas} ")), "{configuration}");
}

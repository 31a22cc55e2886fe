//! The Kubernetes manifests, as far as they go without Kubernetes: what the Deployment runs, with the
//! ConfigMap's file and the Secret's variables, on a real Redis.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use waterclock_conformance::real::RedisServer;

use crate::deployed;
use crate::installed::peer;
use crate::script;
use crate::server::Server;
use crate::visitor::Visitor;
use crate::yaml;

/// The files of the base, or of a component.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = fs::read_dir(deployed::path(folder)).expect("the folder is there");
    let paths = folder.map(|entry| entry.expect("it can be listed").path());
    paths.filter(|path| path.is_file()).collect()
}

fn documents_of(folder: &str) -> Vec<Value> {
    yaml::documents(&files(folder))
}

pub(crate) fn documents() -> Vec<Value> {
    documents_of("kubernetes")
}

/// The document of a kind; the first one, if there are several.
#[track_caller]
pub(crate) fn of_kind<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    let found = documents.iter().find(|document| document["kind"] == kind);
    found.unwrap_or_else(|| panic!("there is no {kind}"))
}

/// The variables that the Secret must have, with the values of its example.
#[track_caller]
fn secret(documents: &[Value]) -> &Map<String, Value> {
    of_kind(documents, "Secret")["stringData"].as_object().expect("variables")
}

/// What a Pod runs: the ConfigMap's file and the Secret's variables, but for the store.
#[track_caller]
pub(crate) fn serve(documents: &[Value], store: &str) -> Server {
    let configuration =
        of_kind(documents, "ConfigMap")["data"]["waterclock.toml"].as_str().expect("a file");
    let mut environment: Vec<(String, String)> = secret(documents)
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned()))
        .collect();
    environment.push(("WATERCLOCK_STORE_URL".to_owned(), store.to_owned()));
    Server::start_with(configuration, environment)
}

/// What Kubernetes' models say against files, and the kinds of objects that they know.
pub(crate) fn compared(files: &[PathBuf]) -> (Vec<String>, Vec<String>) {
    let mut python = peer("python/bin/python");
    python.arg(script::path("kubernetes_models.py")).args(files);
    let (mut kinds, mut complaints) = (Vec::new(), Vec::new());
    for line in script::run(&mut python).lines() {
        let of_file: Value = serde_json::from_str(line).expect("it prints JSON");
        kinds.push(of_file["kind"].as_str().expect("a kind").to_owned());
        let said = of_file["complaints"].as_array().expect("a list");
        complaints.extend(said.iter().map(|said| said.as_str().expect("a text").to_owned()));
    }
    kinds.sort();
    (kinds, complaints)
}

#[test]
fn kubernetes_knows_every_field() {
    let all = [files("kubernetes"), files("kubernetes/autoscaling")].concat();
    let (kinds, complaints) = compared(&all);
    assert_eq!(complaints, Vec::<String>::new());
    let expected = [
        "ConfigMap",
        "Deployment",
        "HorizontalPodAutoscaler",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Secret",
        "Service",
        "ServiceAccount",
    ];
    assert_eq!(kinds, expected);
    // A wrong name, a missing field and a wrong type are noticed.
    let folder = tempfile::tempdir().expect("a folder");
    let broken = |from: &str, to: &str| {
        let text = deployed::text("kubernetes/deployment.yaml");
        assert!(text.contains(from), "{from}");
        let file = folder.path().join("deployment.yaml");
        fs::write(&file, text.replacen(from, to, 1)).expect("a folder of ours");
        compared(&[file]).1
    };
    for (from, to, said) in [
        ("readinessProbe", "readynessProbe", "Container has no field readynessProbe"),
        ("runAsNonRoot", "runAsNonroot", "PodSecurityContext has no field runAsNonroot"),
        ("  selector:", "  strategies:", "DeploymentSpec needs the field selector"),
        ("replicas: 2", "replicas: two", "Deployment.spec.replicas is no int"),
    ] {
        let complaints = broken(from, to);
        assert!(complaints.iter().any(|complaint| complaint.contains(said)), "{complaints:?}");
    }
}

/// A file that kustomize does not list is not applied.
#[test]
fn every_file_is_listed() {
    for (folder, others) in [
        ("kubernetes", &["kustomization.yaml", "secret.yaml"][..]),
        ("kubernetes/autoscaling", &["kustomization.yaml", "adapter.yaml"]),
    ] {
        let name = |path: &Path| path.file_name().expect("a file").to_string_lossy().into_owned();
        let mut files: Vec<String> = files(folder).iter().map(|path| name(path)).collect();
        files.retain(|file| !others.contains(&&**file));
        let list = documents_of(folder).into_iter().find_map(|mut document| {
            let is_list =
                ["Kustomization", "Component"].map(Value::from).contains(&document["kind"]);
            is_list.then(|| document["resources"].take())
        });
        let mut listed: Vec<String> =
            serde_json::from_value(list.expect("a list")).expect("names of files");
        files.sort();
        listed.sort();
        assert_eq!(files, listed, "{folder}");
    }
}

#[test]
fn the_pod_serves_clients_with_a_token() {
    let documents = documents();
    let redis = RedisServer::start();
    let secret = secret(&documents);
    let token = |name: &str| format!("Bearer {}", secret[name].as_str().expect("a text"));
    assert!(secret.contains_key("WATERCLOCK_STORE_URL"));

    let server = serve(&documents, &redis.url());
    let get = |path: &str, token: &str| {
        Visitor::at(1).get_with(server.http, path, &[("Authorization", token)]).status
    };
    // The paths that the probes ask, which have no token.
    let container = &of_kind(&documents, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
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

//! Istio's ingress gateway, without Istio: Envoy with the patches of `deploy/envoy/istio.yaml` where Istio puts
//! them, in front of what `deploy/kubernetes` runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::deployed::{self, Ports};
use crate::edge::{ANY_PAGE, Edge, LOGIN};
use crate::envoy::with_file;
use crate::kubernetes;
use crate::visitor::Visitor;
use crate::yaml;

const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const ROUTER: &str = "envoy.filters.http.router";

/// What the file adds to a gateway.
struct Patches {
    cluster: Value,
    http_filter: Value,
    virtual_host: Value,
}

/// The `EnvoyFilter`, and the `NetworkPolicy` that goes with it.
fn documents() -> [Value; 2] {
    let documents = yaml::documents(&[deployed::path("envoy/istio.yaml")]);
    documents.try_into().expect("two documents")
}

/// Takes the patches out of the file. What is left is for Istio itself, which no test runs: so it must be
/// exactly this.
#[track_caller]
fn patches() -> Patches {
    let [mut filter, _] = documents();
    let mut value_of = |at: usize| filter["spec"]["configPatches"][at]["patch"]["value"].take();
    let [cluster, http_filter, virtual_host] = [value_of(0), value_of(1), value_of(2)];
    let before_the_router = json!({ "name": MANAGER, "subFilter": { "name": ROUTER } });
    let expected = json!({
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": { "name": "waterclock", "namespace": "istio-system" },
        "spec": {
            "workloadSelector": { "labels": { "istio": "ingressgateway" } },
            "configPatches": [
                {
                    "applyTo": "CLUSTER",
                    "match": { "context": "GATEWAY" },
                    "patch": { "operation": "ADD", "value": null },
                },
                {
                    "applyTo": "HTTP_FILTER",
                    "match": {
                        "context": "GATEWAY",
                        "listener": { "filterChain": { "filter": before_the_router } },
                    },
                    "patch": { "operation": "INSERT_BEFORE", "value": null },
                },
                {
                    "applyTo": "VIRTUAL_HOST",
                    "match": { "context": "GATEWAY" },
                    "patch": { "operation": "MERGE", "value": null },
                },
            ],
        },
    });
    assert_eq!(filter, expected);
    Patches { cluster, http_filter, virtual_host }
}

/// The only address of a cluster.
fn address(cluster: &mut Value) -> &mut Value {
    let path = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address";
    cluster.pointer_mut(path).expect("the cluster has an endpoint")
}

fn loopback(port: u16) -> Value {
    json!({ "address": "127.0.0.1", "port_value": port })
}

/// A gateway for all hosts with one route, as far as rate limits are concerned, and with the patches.
fn gateway(folder: &Path, ports: &Ports) -> Command {
    let Patches { mut cluster, http_filter, virtual_host } = patches();
    *address(&mut cluster) = loopback(ports.grpc);
    let mut origin = cluster.clone();
    *address(&mut origin) = loopback(ports.origin);
    origin["name"] = "origin".into();
    origin["load_assignment"]["cluster_name"] = "origin".into();
    // The origin of these tests speaks HTTP/1.
    origin["typed_extension_protocol_options"] = json!({});

    let mut host = json!({
        "name": "*:80",
        "domains": ["*"],
        "routes": [{ "match": { "prefix": "/" }, "route": { "cluster": "origin" } }],
    });
    for (name, value) in virtual_host.as_object().expect("a virtual host") {
        assert!(host.get(name).is_none(), "{name} of a virtual host is Istio's");
        host[name] = value.clone();
    }
    let extensions = "type.googleapis.com/envoy.extensions.filters";
    let router = json!({
        "name": ROUTER,
        "typed_config": { "@type": format!("{extensions}.http.router.v3.Router") },
    });
    let manager = json!({
        "@type": format!("{extensions}.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "gateway",
        "use_remote_address": true,
        "http_filters": [http_filter, router],
        "route_config": { "virtual_hosts": [host] },
    });
    let listener = json!({
        "name": "gateway",
        "address": { "socket_address": loopback(ports.proxy) },
        "filter_chains": [{ "filters": [{ "name": MANAGER, "typed_config": manager }] }],
    });
    let resources = json!({ "listeners": [listener], "clusters": [cluster, origin] });
    let file = folder.join("gateway.json");
    let bootstrap = json!({ "static_resources": resources });
    fs::write(&file, bootstrap.to_string()).expect("a folder of ours");
    with_file(&file)
}

/// The gateway in front of a Pod. The token in the file is the one of the Secret's example.
#[track_caller]
fn start() -> Edge {
    Edge::start_with(kubernetes::serve(&kubernetes::documents(), "memory:"), gateway)
}

#[test]
fn refuses_what_is_too_much() {
    let edge = start();
    let refusal = edge.exhaust(Visitor::at(2), &ANY_PAGE);
    assert_eq!(refusal.number("x-ratelimit-remaining"), 0);
    assert_eq!(refusal.header("x-envoy-ratelimited"), Some("true"));
    edge.server.stop();
}

/// A login is one with a query as well. Pages that only begin like it are none.
#[test]
fn counts_logins_apart() {
    let edge = start();
    let visitor = Visitor::at(2);
    edge.exhaust(visitor, &LOGIN);
    assert_eq!(edge.get(visitor, "/login?next=home").status, 429);
    assert_eq!(edge.get(visitor, "/logins").status, 200);
    edge.server.stop();
}

#[test]
fn knows_its_visitors() {
    start().knows_its_visitors();
}

#[test]
fn survives_a_crash() {
    start().survives_a_crash(503);
}

/// The gateway asks the Service of `deploy/kubernetes`, and may reach its Pods.
#[test]
fn names_what_is_deployed() {
    let deployed = kubernetes::documents();
    let service = kubernetes::of_kind(&deployed, "Service");
    let [_, network_policy] = documents();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let namespace = text(&network_policy["metadata"]["namespace"]);
    let host = format!("{}.{namespace}.svc.cluster.local", text(&service["metadata"]["name"]));
    let ports = service["spec"]["ports"].as_array().expect("a list of ports");
    let port = ports.iter().find(|port| port["name"] == "grpc").expect("a port for gRPC");
    let expected = json!({ "address": host, "port_value": port["port"] });
    assert_eq!(*address(&mut patches().cluster), expected);

    let own = kubernetes::of_kind(&deployed, "NetworkPolicy");
    assert_eq!(network_policy["spec"]["podSelector"], own["spec"]["podSelector"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("networkpolicy.yaml");
    fs::write(&file, network_policy.to_string()).expect("a folder of ours");
    let (kinds, complaints) = kubernetes::compared(&[file]);
    assert_eq!((kinds, complaints), (vec!["NetworkPolicy".to_owned()], Vec::new()));
}

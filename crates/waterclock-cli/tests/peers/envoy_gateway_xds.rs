//! Envoy in front of `ratelimit`, with the environment, the certificates and the limits of Envoy Gateway: limits come by
//! xDS, and all connections are TLS with certificates of both sides.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use waterclock_conformance::real::{await_that, free_port};
use waterclock_server::envoy::reference::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy, RateLimitUnit,
};

use crate::background::Background;
use crate::certificates::Authority;
use crate::control_plane::ControlPlane;
use crate::deployed::{self, Ports};
use crate::envoy::with_file;
use crate::origin::Origin;
use crate::visitor::{Answer, Visitor};

/// What Envoy Gateway names a listener's domain, and the entry of a route.
const DOMAIN: &str = "default/eg/http";
const ROUTE: &str = "httproute/default/backend/rule/0/match/0/www_example_com";

/// Everybody, until the test ends.
struct Gateway {
    runtime: Runtime,
    plane: ControlPlane,
    ports: Ports,
    debug: u16,
    metrics: u16,
    // Before what they need.
    _proxy: Background,
    _service: Background,
    _origin: Origin,
    _folder: TempDir,
}

/// The variables that Envoy Gateway sets, with other places and ports. Without `REDIS_URL`: a store in memory is always in
/// time, also on a busy machine.
fn service(folder: &Path, ports: &Ports, more: [u16; 2], plane: u16) -> Command {
    let link = folder.join("ratelimit");
    symlink(env!("CARGO_BIN_EXE_waterclock"), &link).expect("a folder of ours");
    let file = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new(link);
    // A manifest of a gateway for models passes one that the reference service does not know either.
    command.arg("--runtime_path=/data").env_clear().envs([
        ("RUNTIME_ROOT", file("data")),
        ("RUNTIME_SUBDIRECTORY", "ratelimit".to_owned()),
        ("RUNTIME_IGNOREDOTFILES", "true".to_owned()),
        ("RUNTIME_WATCH_ROOT", "false".to_owned()),
        ("LOG_LEVEL", "info".to_owned()),
        ("USE_STATSD", "false".to_owned()),
        ("CONFIG_TYPE", "GRPC_XDS_SOTW".to_owned()),
        ("CONFIG_GRPC_XDS_SERVER_URL", format!("localhost:{plane}")),
        ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit".to_owned()),
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true".to_owned()),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", file("cert.pem")),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", file("key.pem")),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", file("ca.pem")),
        ("GRPC_SERVER_USE_TLS", "true".to_owned()),
        ("GRPC_SERVER_TLS_CERT", file("cert.pem")),
        ("GRPC_SERVER_TLS_KEY", file("key.pem")),
        ("GRPC_SERVER_TLS_CA_CERT", file("ca.pem")),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true".to_owned()),
        ("REDIS_SOCKET_TYPE", "tcp".to_owned()),
        ("USE_PROMETHEUS", "true".to_owned()),
        ("PROMETHEUS_ADDR", format!(":{}", more[1])),
        ("PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml".to_owned()),
        ("HOST", "127.0.0.1".to_owned()),
        ("PORT", ports.http.to_string()),
        ("DEBUG_HOST", "127.0.0.1".to_owned()),
        ("DEBUG_PORT", more[0].to_string()),
        ("GRPC_HOST", "127.0.0.1".to_owned()),
        ("GRPC_PORT", ports.grpc.to_string()),
    ]);
    command
}

/// A text with another one before each place where it has `before`.
fn insert(text: &str, before: &str, inserted: &str) -> String {
    assert!(text.contains(before), "the file has no {before} now");
    text.replace(before, &format!("{inserted}{before}"))
}

/// The file of `deploy/envoy`, with the domain, descriptors, certificates and costs that Envoy Gateway configures.
fn proxy(folder: &Path, ports: &Ports) -> Command {
    let file = deployed::copy("envoy/envoy.yaml", folder, ports);
    let text = fs::read_to_string(&file).expect("just written");
    let rule = |rule: &str| {
        format!(
            "actions: [{{ generic_key: {{ descriptor_key: {ROUTE}, descriptor_value: {ROUTE} }} }}, \
             {{ generic_key: {{ descriptor_key: {rule}, descriptor_value: {rule} }} }}]"
        )
    };
    let changed = text
        .replace("timeout: 0.25s", "timeout: 9s")
        .replacen("domain: edge", &format!("domain: {DOMAIN}"), 1)
        .replacen("actions: [{ remote_address: {} }]", &rule("rule-0-match--1"), 1);
    assert!(changed.contains(DOMAIN) && changed.contains(ROUTE), "the file has other texts now");
    let at = " ".repeat(24);
    let kind = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute";
    // Envoy ignores costs among the `rate_limits` of the route itself.
    let route = |path: &str, limits: &str| {
        format!(
            "{at}- match: {{ path: {path} }}\n{at}  route: {{ cluster: origin }}\n{at}  typed_per_filter_config:\n\
             {at}    envoy.filters.http.ratelimit:\n{at}      \"@type\": {kind}\n{at}      rate_limits:\n{limits}"
        )
    };
    let within = " ".repeat(32);
    let model = rule("rule-1-match--1");
    let bill = "{ format: \"%DYNAMIC_METADATA(io.envoy.ai_gateway:llm_total_token)%\" }";
    let costs = format!(
        "{within}- {model}\n{within}  hits_addend: {{ number: 0 }}\n{within}- {model}\n\
         {within}  hits_addend: {bill}\n{within}  apply_on_stream_done: true\n"
    );
    let free = format!("{within}- {}\n", rule("no-rule"));
    let routes = route("/model", &costs) + &route("/free", &free);
    let text = insert(&changed, &format!("{at}- match: {{ prefix: / }}"), &routes);
    let at = " ".repeat(18);
    let lua = format!(
        "{at}- name: envoy.filters.http.lua\n{at}  typed_config:\n\
         {at}    \"@type\": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua\n\
         {at}    default_source_code:\n{at}      inline_string: |\n{at}        function envoy_on_response(handle)\n\
         {at}          local metadata = handle:streamInfo():dynamicMetadata()\n\
         {at}          metadata:set(\"io.envoy.ai_gateway\", \"llm_total_token\", 10)\n{at}        end\n"
    );
    let text = insert(&text, &format!("{at}- name: envoy.filters.http.router"), &lua);
    let pem = |name: &str| format!("{{ filename: {} }}", folder.join(name).display());
    let (cert, key, ca) = (pem("cert.pem"), pem("key.pem"), pem("ca.pem"));
    let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    let tls = format!(
        "      transport_socket:\n        name: envoy.transport_sockets.tls\n        typed_config:\n\
         \x20         \"@type\": {kind}\n          common_tls_context:\n\
         \x20           tls_certificates: [{{ certificate_chain: {cert}, private_key: {key} }}]\n\
         \x20           validation_context: {{ trusted_ca: {ca} }}\n"
    );
    let text = insert(&text, "    - name: origin\n      connect_timeout", &tls);
    fs::write(&file, text).expect("a folder of ours");
    with_file(&file)
}

impl Gateway {
    fn start() -> Gateway {
        let folder = TempDir::with_prefix("waterclock-gateway-").expect("a folder can be made");
        let authority = Authority::new();
        authority.for_both().write_to(folder.path());
        fs::write(folder.path().join("ca.pem"), authority.pem()).expect("a folder of ours");
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("threads");
        let plane = runtime.block_on(ControlPlane::with_tls(&authority));
        let origin = Origin::start();
        let [proxy_port, http, grpc, debug, metrics] = [(); 5].map(|()| free_port());
        let ports = Ports { proxy: proxy_port, origin: origin.port(), http, grpc };
        let mut command = service(folder.path(), &ports, [debug, metrics], plane.address.port());
        let service = Background::start(&mut command, folder.path(), http);
        let proxy =
            Background::start(&mut proxy(folder.path(), &ports), folder.path(), ports.proxy);
        Gateway {
            runtime,
            plane,
            ports,
            debug,
            metrics,
            _proxy: proxy,
            _service: service,
            _origin: origin,
            _folder: folder,
        }
    }

    fn get(&self, path: &str) -> Answer {
        Visitor::at(2).get(self.ports.proxy, path)
    }

    /// What the reference service's metric says of a rule.
    fn hits(&self, rule: &str) -> u64 {
        let text = Visitor::at(1).get(self.metrics, "/metrics").body;
        let begins = format!(
            "ratelimit_service_rate_limit_total_hits{{domain=\"{DOMAIN}\",key1=\"{ROUTE}_{ROUTE}\",key2=\"{rule}_{rule}\"}} "
        );
        let count = text.lines().find_map(|line| line.strip_prefix(&*begins));
        count.unwrap_or_else(|| panic!("no {begins}: {text}")).parse().expect("a number")
    }
}

/// A route with a rule of 3 requests and one of 21 tokens in an hour.
fn limits(shadow: bool) -> RateLimitConfig {
    let rule = |name: &str, requests_per_unit: u32| RateLimitDescriptor {
        key: name.to_owned(),
        value: name.to_owned(),
        shadow_mode: shadow,
        rate_limit: Some(RateLimitPolicy {
            unit: RateLimitUnit::Hour.into(),
            requests_per_unit,
            ..RateLimitPolicy::default()
        }),
        ..RateLimitDescriptor::default()
    };
    RateLimitConfig {
        name: DOMAIN.to_owned(),
        domain: DOMAIN.to_owned(),
        descriptors: vec![RateLimitDescriptor {
            key: ROUTE.to_owned(),
            value: ROUTE.to_owned(),
            descriptors: vec![rule("rule-0-match--1", 3), rule("rule-1-match--1", 21)],
            ..RateLimitDescriptor::default()
        }],
    }
}

#[test]
fn limits_come_by_xds() {
    let mut gateway = Gateway::start();
    let healthy = Visitor::at(1).get(gateway.ports.http, "/healthcheck").status;
    assert_eq!(healthy, 200, "ready without limits: FORCE_START_WITHOUT_INITIAL_CONFIG");
    assert_eq!(gateway.get("/").status, 503, "calls fail before the first configuration");
    let mut stream = gateway.runtime.block_on(gateway.plane.stream());
    gateway.runtime.block_on(stream.push("1", &[limits(false)]));
    await_that("Envoy has connected", || gateway.get("/free").status == 200);

    let seen = |answer: Answer| {
        let limit = answer.header("x-ratelimit-limit").unwrap_or_default().to_owned();
        (answer.status, limit, answer.number("x-ratelimit-remaining"))
    };
    let limit = || "3, 3;w=3600".to_owned();
    let all = [(); 4].map(|()| seen(gateway.get("/")));
    assert_eq!(all, [(200, limit(), 2), (200, limit(), 1), (200, limit(), 0), (429, limit(), 0)]);

    // A peek before each request, and a bill of 10 after it.
    let bills = [10, 20, 30].map(|billed| {
        let status = gateway.get("/model").status;
        await_that("the bill has arrived", || gateway.hits("rule-1-match--1") >= billed);
        status
    });
    assert_eq!((bills, gateway.get("/model").status), ([200; 3], 429));

    let config = Visitor::at(1).get(gateway.debug, "/rlconfig").body;
    let line = format!(
        "{DOMAIN}.{ROUTE}_{ROUTE}.rule-0-match--1_rule-0-match--1: unit=HOUR requests_per_unit=3, shadow_mode: false"
    );
    assert!(config.contains(&line), "{config}");

    // A fault changes nothing.
    let mut faulty = limits(true);
    faulty.descriptors[0].key.clear();
    stream.send("2", &[faulty]);
    gateway.runtime.block_on(stream.is_rejected("2", "1"));
    assert_eq!(gateway.get("/").status, 429);

    gateway.runtime.block_on(stream.push("3", &[limits(true)]));
    assert_eq!(seen(gateway.get("/")), (200, limit(), 0), "in shadow");

    gateway.runtime.block_on(stream.push("4", &[]));
    let free = gateway.get("/");
    assert_eq!((free.status, free.header("x-ratelimit-limit")), (200, None));
}

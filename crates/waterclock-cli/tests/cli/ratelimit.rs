//! `waterclock ratelimit`: in place of Envoy's reference rate limit service.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use waterclock_conformance::real::free_port;

use crate::serve::client::Client;
use crate::support::Place;

const LIMITS: &str = "domain: edge\ndescriptors:\n  - key: user\n    rate_limit: { unit: hour, requests_per_unit: 2 }\n";

/// The service, until this is dropped.
struct Service {
    child: Child,
    http: u16,
    debug: u16,
    metrics: u16,
}

impl Drop for Service {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Service {
    fn start(mut command: Command, place: &Place, more: &[(&str, &str)]) -> Service {
        let [http, debug, metrics, grpc] = [free_port(), free_port(), free_port(), free_port()];
        let ports = [("PORT", http), ("DEBUG_PORT", debug), ("GRPC_PORT", grpc)];
        let hosts = ["HOST", "DEBUG_HOST", "GRPC_HOST"].map(|name| (name, "127.0.0.1"));
        command
            .envs(ports.map(|(name, port)| (name, port.to_string())))
            .envs(hosts)
            .env("USE_PROMETHEUS", "true")
            .env("PROMETHEUS_ADDR", format!("127.0.0.1:{metrics}"))
            .env("RUNTIME_ROOT", place.path(""))
            .env("RUNTIME_SUBDIRECTORY", "limits")
            .env("USE_STATSD", "false")
            .env("LOG_LEVEL", "info")
            .envs(more.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let service = Service { child: command.spawn().unwrap(), http, debug, metrics };
        service.until("it is healthy", || service.get(service.http, "/healthcheck").0 == 200);
        service
    }

    fn get(&self, port: u16, path: &str) -> (u16, String) {
        let Ok(mut client) = Client::connect(SocketAddr::from(([127, 0, 0, 1], port))) else {
            return (0, String::new());
        };
        client
            .ask("GET", path, &[], "")
            .map_or((0, String::new()), |answer| (answer.status, answer.text))
    }

    fn check(&self, user: &str) -> u16 {
        let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], self.http))).unwrap();
        let body = format!(
            r#"{{"domain":"edge","descriptors":[{{"entries":[{{"key":"user","value":"{user}"}}]}}]}}"#
        );
        client.ask("POST", "/json", &["content-type: application/json"], &body).unwrap().status
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        for _ in 0..3_000 {
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("waited in vain: {what}");
    }
}

fn place() -> Place {
    let place = Place::new();
    std::fs::create_dir_all(place.path("limits/config")).unwrap();
    place.file("limits/config/edge.yaml", LIMITS)
}

#[test]
fn limits_of_files_are_served_and_followed() {
    let place = place();
    let service = Service::start(place.command(&["ratelimit"]), &place, &[]);
    assert_eq!([(); 3].map(|()| service.check("alice")), [200, 200, 429]);
    let (_, limits) = service.get(service.debug, "/rlconfig");
    assert!(
        limits.contains("edge.user: unit=HOUR requests_per_unit=2, shadow_mode: false"),
        "{limits}"
    );
    let (_, metrics) = service.get(service.metrics, "/metrics");
    let counted = r#"ratelimit_service_rate_limit_over_limit{domain="edge",key1="user"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(service.get(service.http, "/v1/policies").0, 404, "only what that service serves");
    assert_eq!(service.get(service.http, "/metrics").0, 404);
    // A file with mistakes changes nothing, a good one does.
    std::fs::write(place.path("limits/config/edge.yaml"), LIMITS.replace("hour", "fortnight"))
        .unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!([(); 3].map(|()| service.check("bob")), [200, 200, 429]);
    std::fs::write(place.path("limits/config/edge.yaml"), LIMITS.replace('2', "3")).unwrap();
    service.until("the new limit is in force", || {
        service.get(service.debug, "/rlconfig").1.contains("requests_per_unit=3")
    });
    assert_eq!([(); 4].map(|()| service.check("carol")), [200, 200, 200, 429]);
}

#[test]
fn a_link_of_that_name_is_the_command() {
    let place = place();
    let link = place.path("ratelimit");
    symlink(env!("CARGO_BIN_EXE_waterclock"), &link).unwrap();
    let mut command = Command::new(link);
    command.arg("--an-argument-of-the-future").env_remove("WATERCLOCK_STORE_URL");
    let service = Service::start(command, &place, &[("SHADOW_MODE", "true")]);
    assert_eq!([(); 3].map(|()| service.check("alice")), [200; 3], "all of it in shadow");
}

/// Envoy Gateway names a collector with the standard variable.
#[test]
fn a_collector_is_told() {
    let place = place();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            _ = tell.send(export(stream.unwrap()));
        }
    });
    let more =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector), ("OTEL_METRIC_EXPORT_INTERVAL", "50")];
    let service = Service::start(place.command(&["ratelimit"]), &place, &more);
    assert_eq!(service.check("alice"), 200);
    let counted = "ratelimit_service_rate_limit_total_hits";
    let is_counted = || {
        let export = told.recv_timeout(Duration::from_secs(30)).expect("an export in time");
        assert!(export.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{export}");
        export.contains(counted)
    };
    while !is_counted() {}
}

/// One export, as it came.
fn export(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4_096];
        let read = stream.read(&mut piece).unwrap();
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let is_whole = head.zip(length).is_some_and(|(head, length)| {
            bytes.len() == head + 4 + length.parse::<usize>().expect("a number")
        });
        if is_whole || read == 0 {
            _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            return text;
        }
    }
}

#[test]
fn what_cannot_be_served() {
    let place = place();
    for (name, value, complaint) in [
        ("CONFIG_TYPE", "ETCD", "CONFIG_TYPE must be FILE or GRPC_XDS_SOTW"),
        ("SHADOW_MODE", "perhaps", "SHADOW_MODE must be true or false"),
        ("GRPC_PORT", "http", "GRPC_PORT must be a number"),
        ("REDIS_URL", "/var/run/redis.sock", "REDIS_URL is a socket"),
        ("GRPC_SERVER_USE_TLS", "true", "GRPC_SERVER_TLS_CERT must name a PEM file"),
    ] {
        place.run_with(&[(name, value)], &["ratelimit"]).fails(complaint);
    }
}
